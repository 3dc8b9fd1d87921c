"""The details about a key, as a sentence."""

from collections.abc import Callable

from idlestate.backends.shards.key_details import KeyDetails, KeyState

_UNLESS = {
    "idle": "when its idle time ends, unless it is accessed before",
    "ttl": "when its time to live ends, unless it is written before",
    "lifetime": "when its maximum lifetime ends, whatever happens to it",
}
_ROW_ENDS = {
    "idle": "its idle time ends",
    "ttl": "its time to live ends",
    "lifetime": "its maximum lifetime ends",
    "no_partner": "no row can come any more that matches it",
}
_ENDED = {
    "idle": "its idle time ended",
    "ttl": "its time to live ended",
    "lifetime": "its maximum lifetime ended",
}


def key_in_words(details: KeyDetails, moment: Callable[[int], str]) -> str:
    """Why a key is, or is no longer, in state.

    Args:
        details: what is known about the key.
        moment: writes a time in ms.
    """
    end = "" if details.deadline_ms is None else moment(details.deadline_ms)
    if details.sides:
        return _rows_in_words(details, end)
    match details.state:
        case KeyState.OPEN if details.deadline_ms is None and details.timer_at_ms is not None:
            return (
                "This key is in state, and no rule of the policy ends it. Its next timer fires, or "
                f"the last of its states expires, at {moment(details.timer_at_ms)}."
            )
        case KeyState.OPEN if details.deadline_ms is None:
            return "This key is in state and never expires: no rule of the policy applies to it."
        case KeyState.OPEN:
            return f"This key is in state until {end}, {_UNLESS[details.reason or 'idle']}."
        case KeyState.OVERDUE:
            ended = _ENDED[details.reason or "idle"]
            return f"This key expired at {end}: {ended}. The next batch or sweep removes it."
        case KeyState.GONE:
            return f"This key expired at {end}: {_ENDED[details.reason or 'idle']}."
        case KeyState.NEVER_SEEN:
            return "This key was never seen."
        case _:
            return (
                "This key is not in state: it expired too long ago to be remembered, was removed "
                "by a writer, or was never seen."
            )


def _rows_in_words(details: KeyDetails, end: str) -> str:
    """The same of a key of a join."""
    rows = " and ".join(
        f"{of.rows:,} {side} row{'' if of.rows == 1 else 's'}" for side, of in details.sides.items()
    )
    if details.state is KeyState.OVERDUE:
        return f"This key has {rows}, which have ended. The next batch removes them."
    if details.deadline_ms is None:
        return f"This key has {rows} in state, of which some are kept forever."
    ends = _ROW_ENDS[details.reason or "no_partner"]
    return f"This key has {rows} in state. The last row is kept until {end}, when {ends}."

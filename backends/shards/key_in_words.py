"""The facts about a key, as a sentence."""

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


def key_in_words(facts: KeyDetails, moment: Callable[[int], str]) -> str:
    """Why a key is, or is no longer, in state.

    Args:
        facts: what is known about the key.
        moment: writes a time in ms.
    """
    end = "" if facts.deadline_ms is None else moment(facts.deadline_ms)
    if facts.sides:
        return _rows_in_words(facts, end)
    match facts.state:
        case KeyState.OPEN if facts.deadline_ms is None and facts.timer_at_ms is not None:
            return (
                "This key is in state, and no rule of the policy ends it. Its next timer fires, or "
                f"the last of its states expires, at {moment(facts.timer_at_ms)}."
            )
        case KeyState.OPEN if facts.deadline_ms is None:
            return "This key is in state and never expires: no rule of the policy applies to it."
        case KeyState.OPEN:
            return f"This key is in state until {end}, {_UNLESS[facts.reason or 'idle']}."
        case KeyState.OVERDUE:
            ended = _ENDED[facts.reason or "idle"]
            return f"This key expired at {end}: {ended}. The next batch or sweep removes it."
        case KeyState.GONE:
            return f"This key expired at {end}: {_ENDED[facts.reason or 'idle']}."
        case KeyState.NEVER_SEEN:
            return "This key was never seen."
        case _:
            return (
                "This key is not in state: it expired too long ago to be remembered, was removed "
                "by a writer, or was never seen."
            )


def _rows_in_words(facts: KeyDetails, end: str) -> str:
    """The same of a key of a join."""
    rows = " and ".join(
        f"{of.rows:,} {side} row{'' if of.rows == 1 else 's'}" for side, of in facts.sides.items()
    )
    if facts.state is KeyState.OVERDUE:
        return f"This key has {rows}, which have ended. The next batch removes them."
    if facts.deadline_ms is None:
        return f"This key has {rows} in state, of which some are kept forever."
    ends = _ROW_ENDS[facts.reason or "no_partner"]
    return f"This key has {rows} in state. The last row is kept until {end}, when {ends}."

"""Why a key is in state, or no longer, as a status page says it."""

from collections.abc import Iterator, Mapping

from idlestate.backends.shards.key_facts import Explanation, KeyState
from idlestate.metrics.growth_curve import moment
from idlestate.metrics.key_lookup import KeyAnswer
from idlestate.retention.quantities import span_in_words

_UNLESS = {
    "idle": "when its idle time ends, unless it is accessed before",
    "ttl": "when its time to live ends, unless it is written before",
    "lifetime": "when its maximum lifetime ends, whatever happens to it",
}
_ENDED = {
    "idle": "its idle time ended",
    "ttl": "its time to live ended",
    "lifetime": "its maximum lifetime ended",
}
_TIMES = {
    "Created": "created_at_ms",
    "Last written": "written_at_ms",
    "Last read": "read_at_ms",
    "Last access that counts": "last_access_ms",
    "Deadline": "deadline_ms",
}


def answer_of(found: Explanation, values: Mapping[str, object] | None = None) -> KeyAnswer:
    """An explanation as an answer.

    Args:
        found: the explanation.
        values: the aggregates of the key by name, if they are known.
    """
    return KeyAnswer(_sentence(found), list(_facts(found, values or {})))


def _sentence(found: Explanation) -> str:
    facts = found.facts
    end = "" if facts.deadline_ms is None else moment(facts.deadline_ms)
    match facts.state:
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


def _facts(found: Explanation, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in (*found.key.items(), *values.items()):
        yield name, "null" if value is None else str(value)
    for name, field in _TIMES.items():
        at_ms = getattr(found.facts, field)
        if at_ms is not None:
            yield name, moment(at_ms)
    if found.facts.state is KeyState.OPEN and found.facts.deadline_ms is not None:
        yield "Time left", span_in_words(max(found.facts.deadline_ms - found.now_ms, 0), 2)
    if found.policy.chosen_by:
        yield "Policy chosen by", found.policy.chosen_by

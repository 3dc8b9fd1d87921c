"""Why a key is, or is no longer, in state, as shown on a status page."""

from collections.abc import Iterator, Mapping

from idlestate.backends.shards.key_details import Explanation, KeyState
from idlestate.backends.shards.key_in_words import key_in_words
from idlestate.metrics.growth_curve_on_page import moment
from idlestate.metrics.key_lookup_form import KeyAnswer
from idlestate.retention.readable_quantities import span_in_words

_TIMES = {
    "Created": "created_at_ms",
    "Last written": "written_at_ms",
    "Last read": "read_at_ms",
    "Last access that counts": "last_access_ms",
    "Next timer": "timer_at_ms",
    "Deadline": "deadline_ms",
}


def answer_of(found: Explanation, values: Mapping[str, object] | None = None) -> KeyAnswer:
    """An explanation as an answer.

    Args:
        found: the explanation.
        values: the aggregates of the key by name, if they are known.
    """
    return KeyAnswer(key_in_words(found.details, moment), list(_facts(found, values or {})))


def _facts(found: Explanation, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in (*found.key.items(), *values.items()):
        yield name, "null" if value is None else str(value)
    for name, field in _TIMES.items():
        at_ms = getattr(found.details, field)
        if at_ms is not None:
            yield name, moment(at_ms)
    for side, of in found.details.sides.items():
        yield f"{side.capitalize()} rows", f"{of.rows:,}, {of.overdue:,} of them overdue"
        yield f"Oldest {side} row", moment(of.first_ms)
        yield f"Newest {side} row", moment(of.last_ms)
        if of.next_end_ms is not None:
            yield f"Next {side} row ends", moment(of.next_end_ms)
    if found.details.held_rows:
        yield "Waiting rows", f"{found.details.held_rows:,}"
    if found.details.state is KeyState.OPEN and found.details.deadline_ms is not None:
        yield "Time left", span_in_words(max(found.details.deadline_ms - found.now_ms, 0), 2)
    if found.policy.chosen_by:
        yield "Policy chosen by", found.policy.chosen_by

"""What the status page says of a key, for every kind of answer."""

import pytest

from idlestate.backends.shards.key_details import Explanation, KeyDetails, KeyState
from idlestate.metrics.key_answer import answer_of
from idlestate.retention.policy import Policy

NOW_MS = 1_790_000_000_000
LATER_MS = NOW_MS + 5_400_000


def explanation(state: KeyState, deadline_ms: int | None = None, reason: str | None = None,
                **times: int) -> Explanation:  # fmt: skip
    facts = KeyDetails(state, deadline_ms, reason, **times)
    policy = Policy(idle_min="30m", idle_max="2h")
    return Explanation("carts", {"user": "ada", "day": None}, NOW_MS, facts, policy, 1)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            explanation(KeyState.OPEN, LATER_MS, "idle"),
            (
                "This key is in state until 2026-09-21 15:43:20 UTC, when its idle time ends, "
                "unless it is accessed before."
            ),
        ),
        (
            explanation(KeyState.OPEN, LATER_MS, "lifetime"),
            (
                "This key is in state until 2026-09-21 15:43:20 UTC, when its maximum lifetime "
                "ends, whatever happens to it."
            ),
        ),
        (
            explanation(KeyState.OPEN),
            "This key is in state and never expires: no rule of the policy applies to it.",
        ),
        (
            explanation(KeyState.OPEN, timer_at_ms=LATER_MS),
            (
                "This key is in state, and no rule of the policy ends it. Its next timer fires, or "
                "the last of its states expires, at 2026-09-21 15:43:20 UTC."
            ),
        ),
        (
            explanation(KeyState.OVERDUE, NOW_MS, "ttl"),
            (
                "This key expired at 2026-09-21 14:13:20 UTC: its time to live ended. The next "
                "batch or sweep removes it."
            ),
        ),
        (
            explanation(KeyState.GONE, NOW_MS, "idle"),
            "This key expired at 2026-09-21 14:13:20 UTC: its idle time ended.",
        ),
        (explanation(KeyState.NEVER_SEEN), "This key was never seen."),
        (
            explanation(KeyState.FORGOTTEN_OR_NEVER_SEEN),
            (
                "This key is not in state: it expired too long ago to be remembered, was removed "
                "by a writer, or was never seen."
            ),
        ),
    ],
)
def test_each_kind_of_key_has_its_sentence(found: Explanation, sentence: str) -> None:
    assert answer_of(found).sentence == sentence


def test_an_open_key_has_its_values_times_and_the_time_left() -> None:
    found = explanation(KeyState.OPEN, LATER_MS, "idle", written_at_ms=NOW_MS)
    assert dict(answer_of(found, {"total": 7}).facts) == {
        "user": "ada",
        "day": "null",
        "total": "7",
        "Last written": "2026-09-21 14:13:20 UTC",
        "Deadline": "2026-09-21 15:43:20 UTC",
        "Time left": "1 hour 30 minutes",
    }

"""A look at all open lives of a shard: when they end, and when they were last used.

To look at every row costs too much for each batch, so a shard is looked at again when the policy
has changed, and else at most once a minute (in the first minute sooner: after 1 s, 2 s, 4 s and so
on). The record keeps what was seen, in absolute times, so it can be counted at any later moment. It
is as old as the look; of more than `_MOST_ROWS` rows only those with the lowest hashes are looked
at and stand for the others.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from idlestate.backends.runs.sweeps import ending
from idlestate.backends.runs.table_runs import Runs
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS
from idlestate.retention.time_bins import TimeBins

_FIRST_WAIT_MS: Final = 1_000
_WAIT_MS: Final = 60_000
_MOST_ROWS: Final = 131_072


@dataclass(frozen=True, slots=True)
class KeyAges:
    """One look at a shard.

    Attributes:
        policy: what of the policy decided when lives end; None before the first look.
        at_ms: when it was, by the clock.
        wait_ms: how long after it the next one comes.
        ends: the deadlines of open lives; empty if the policy ends none.
        accesses: when they were used last, as the policy counts it.
        first_end_ms: no open life ends before this; `NEVER_MS` if not all of them were looked at.
    """

    policy: Policy | None = None
    at_ms: int = NEVER_MS
    wait_ms: int = _FIRST_WAIT_MS
    ends: TimeBins = field(default_factory=TimeBins)
    accesses: TimeBins = field(default_factory=TimeBins)
    first_end_ms: int = NEVER_MS

    def after(self, runs: Runs, policy: Policy, now_ms: int, first_end_ms: int) -> "KeyAges":
        """What is known after a batch: by another look, or by this one and what the batch wrote.

        Args:
            runs: the open lives after it.
            policy: the policy in force.
            now_ms: the clock, which decides only whether to look.
            first_end_ms: the first deadline of the lives that it wrote.
        """
        is_known = self.policy == ending(policy)
        if is_known and 0 <= now_ms - self.at_ms < self.wait_ms:
            return replace(self, first_end_ms=min(self.first_end_ms, first_end_ms))
        lives, is_whole = runs.open_lives(_MOST_ROWS)
        ends, first_ms = TimeBins(), FOREVER_MS
        if not policy.is_unbounded:
            deadlines_ms = lives.ends(policy).deadline_ms
            ends = TimeBins.of(deadlines_ms, runs.live)
            first_ms = int(deadlines_ms.min(initial=FOREVER_MS))
        return KeyAges(
            policy=ending(policy),
            at_ms=now_ms,
            wait_ms=min(2 * self.wait_ms, _WAIT_MS),
            ends=ends,
            accesses=TimeBins.of(lives.last_access_ms(policy), runs.live),
            first_end_ms=first_ms if is_whole else NEVER_MS,
        )

    def to_json(self) -> dict[str, Any]:
        """As a dict that `json` writes."""
        return {
            "policy": self.policy.to_json() if self.policy else None,
            "at_ms": self.at_ms,
            "wait_ms": self.wait_ms,
            "ends": [self.ends.upto_ms, self.ends.keys],
            "accesses": [self.accesses.upto_ms, self.accesses.keys],
            "first_end_ms": self.first_end_ms,
        }

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "KeyAges":
        """Read it back."""
        policy = facts["policy"]
        known = facts | {
            "policy": None if policy is None else Policy.from_json(policy),
            "ends": TimeBins(*facts["ends"]),
            "accesses": TimeBins(*facts["accesses"]),
        }
        return cls(**known)

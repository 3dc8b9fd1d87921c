"""The ages of the open lives of a shard: when they end, and when they were last used.

Reading every row in each batch would cost too much. So all rows are read when the policy has
changed, and otherwise once a minute. In between, a sample is read whenever the batches since the
last look have changed an eighth of the keys, as when a job works off a backlog. The record keeps
the result in absolute times, so it can be counted at any later moment. A sample consists of the
rows with the lowest hashes; a shard of more than `_MOST_ROWS` rows is always sampled.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from idlestate.backends.runs.sweeps import ending
from idlestate.backends.runs.table_runs import Runs
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS
from idlestate.retention.time_bins import TimeBins

_WAIT_MS: Final = 60_000
_MOST_ROWS: Final = 131_072
_SAMPLE_WAIT_MS: Final = 1_000
_SAMPLE_ROWS: Final = 4_096
_CHANGED_SHARE: Final = 1 / 8


@dataclass(frozen=True, slots=True)
class KeyAges:
    """The result of the last look at a shard.

    Attributes:
        policy: the part of the policy that decides when lives end; None before the first look.
        at_ms: the clock's time when all rows were read.
        seen_ms: the clock's time when some were read.
        changed: keys written or expired since.
        ends: the deadlines of open lives; empty if the policy ends none.
        accesses: the last accesses that count under the policy.
        first_end_ms: no open life ends before this; `NEVER_MS` if not all of them were read.
    """

    policy: Policy | None = None
    at_ms: int = NEVER_MS
    seen_ms: int = NEVER_MS
    changed: int = 0
    ends: TimeBins = field(default_factory=TimeBins)
    accesses: TimeBins = field(default_factory=TimeBins)
    first_end_ms: int = NEVER_MS

    def after(
        self, runs: Runs, policy: Policy, now_ms: int, *, changed: int, first_end_ms: int
    ) -> "KeyAges":
        """The ages after a batch: from a new look, or from the last one and the rows that the batch
        wrote.

        Args:
            runs: the open lives after it.
            policy: the policy in force.
            now_ms: the clock, which decides only whether to look.
            changed: keys that it wrote or that expired in it.
            first_end_ms: the first deadline of the lives that it wrote.
        """
        if self.policy != ending(policy) or not 0 <= now_ms - self.at_ms < _WAIT_MS:
            return self._looked(runs, policy, now_ms, _MOST_ROWS, NEVER_MS)
        changed += self.changed
        first_end_ms = min(self.first_end_ms, first_end_ms)
        is_stale = changed > _CHANGED_SHARE * runs.live
        if is_stale and now_ms - self.seen_ms >= _SAMPLE_WAIT_MS:
            return self._looked(runs, policy, now_ms, _SAMPLE_ROWS, first_end_ms)
        return replace(self, changed=changed, first_end_ms=first_end_ms)

    def _looked(
        self, runs: Runs, policy: Policy, now_ms: int, most_rows: int, unseen_end_ms: int
    ) -> "KeyAges":
        """The result of a look; no life in rows beyond `most_rows` ends before `unseen_end_ms`."""
        lives, is_whole = runs.open_lives(most_rows)
        ends, first_ms = TimeBins(), FOREVER_MS
        if not policy.is_unbounded:
            deadlines_ms = lives.ends(policy).deadline_ms
            ends = TimeBins.of(deadlines_ms, runs.live)
            first_ms = int(deadlines_ms.min(initial=FOREVER_MS))
        return KeyAges(
            policy=ending(policy),
            at_ms=now_ms if is_whole or most_rows == _MOST_ROWS else self.at_ms,
            seen_ms=now_ms,
            ends=ends,
            accesses=TimeBins.of(lives.last_access_ms(policy), runs.live),
            first_end_ms=first_ms if is_whole else unseen_end_ms,
        )

    def to_json(self) -> dict[str, Any]:
        """As a dict that `json` writes."""
        return {
            "policy": self.policy.to_json() if self.policy else None,
            "at_ms": self.at_ms,
            "seen_ms": self.seen_ms,
            "changed": self.changed,
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

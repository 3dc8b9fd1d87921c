"""The ages of the open lives of a shard: when they end, and when they were last used.

Reading every row in each batch would cost too much. So all rows are read when the policy has
changed, and otherwise once a minute. In between, a sample is read whenever batches since the last
scan have changed an eighth of the keys, for example while a job works off a backlog. The record
stores the result in absolute times, so it can be evaluated at any later time. A sample consists of
the rows with the lowest hashes; a shard of more than `_MOST_ROWS` rows is always sampled.

A join has lives in two tables, each with its own policy. A life also ends, or is due, at its own
time (`Lives.due_ms`): after a row's last possible partner, or at a function's next timer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

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
OpenLives = Sequence[tuple[Runs, Policy]]
"""The tables of open lives, each with its policy."""


@dataclass(frozen=True, slots=True)
class KeyAges:
    """The result of the last scan of a shard.

    Attributes:
        policies: for each table, the part of its policy that decides when lives end; empty before
            the first scan.
        at_ms: the clock's time of the last scan of all rows.
        seen_ms: the clock's time of the last scan of any rows.
        changed: keys written or expired since that scan.
        ends: when open lives are due; `FOREVER_MS` for a life that never ends.
        accesses: the last accesses of open lives that count under the policy.
        first_end_ms: no open life ends before this; `NEVER_MS` if not all of them were read.
    """

    policies: tuple[Policy, ...] = ()
    at_ms: int = NEVER_MS
    seen_ms: int = NEVER_MS
    changed: int = 0
    ends: TimeBins = field(default_factory=TimeBins)
    accesses: TimeBins = field(default_factory=TimeBins)
    first_end_ms: int = NEVER_MS

    def after(
        self, tables: OpenLives, now_ms: int, *, changed: int, first_end_ms: int
    ) -> "KeyAges":
        """The ages after a batch: from a new scan, or from the last one and the rows that the batch
        wrote.

        Args:
            tables: the open lives after the batch, and the policies in force.
            now_ms: the clock, which only decides whether to scan.
            changed: the number of keys written or expired in the batch.
            first_end_ms: no life written in the batch ends before this.
        """
        live = sum(runs.live for runs, _ in tables)
        if not live:
            # The next life triggers a scan; there may be no batch until it comes.
            return KeyAges(first_end_ms=FOREVER_MS)
        policies = tuple(ending(policy) for _, policy in tables)
        if self.policies != policies or not 0 <= now_ms - self.at_ms < _WAIT_MS:
            return self._looked(tables, now_ms, _MOST_ROWS, NEVER_MS)
        changed += self.changed
        first_end_ms = min(self.first_end_ms, first_end_ms)
        is_stale = changed > _CHANGED_SHARE * live
        if is_stale and now_ms - self.seen_ms >= _SAMPLE_WAIT_MS:
            return self._looked(tables, now_ms, _SAMPLE_ROWS, first_end_ms)
        return replace(self, changed=changed, first_end_ms=first_end_ms)

    def _looked(
        self, tables: OpenLives, now_ms: int, most_rows: int, unseen_end_ms: int
    ) -> "KeyAges":
        """The result of a scan; no life in rows beyond `most_rows` ends before `unseen_end_ms`."""
        live, rows = (sum(counts) for counts in zip(*map(_sizes, tables), strict=True))
        is_whole = rows <= most_rows
        due_ms, accesses_ms = [], []
        for runs, policy in tables:
            # The same share of each table.
            lives = runs.open_lives(None if is_whole else most_rows / rows)
            due_ms.append(lives.due_ms(policy))
            accesses_ms.append(lives.last_access_ms(policy))
        ends_ms = np.concatenate(due_ms)
        return KeyAges(
            policies=tuple(ending(policy) for _, policy in tables),
            at_ms=now_ms if is_whole or most_rows == _MOST_ROWS else self.at_ms,
            seen_ms=now_ms,
            ends=TimeBins.of(ends_ms, live),
            accesses=TimeBins.of(np.concatenate(accesses_ms), live),
            first_end_ms=int(ends_ms.min(initial=FOREVER_MS)) if is_whole else unseen_end_ms,
        )

    def to_json(self) -> dict[str, Any]:
        """As a dict that `json` writes."""
        return {
            "policies": [each.to_json() for each in self.policies],
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
        known = facts | {
            "policies": tuple(map(Policy.from_json, facts["policies"])),
            "ends": TimeBins(*facts["ends"]),
            "accesses": TimeBins(*facts["accesses"]),
        }
        return cls(**known)


def _sizes(table: tuple[Runs, Policy]) -> tuple[int, int]:
    """The number of open lives, and of rows in the runs."""
    runs, _ = table
    return runs.live, sum(map(len, runs.runs))

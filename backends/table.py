"""The table of one shard: lives of keys, and what a batch of records makes of it.

`Table.apply` is the whole of a micro-batch for one shard and a pure function: table, records,
policy and sweep time in, next table and change rows out. It knows nothing of Spark, files or
clocks. How records fall into lives is `retention.lives`; here keys are found, accumulators added
up, ended lives taken out and written down.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends import sketch
from idlestate.backends.changes import Changes, change_rows, life_columns
from idlestate.backends.ended import Ended
from idlestate.backends.fields import take, take_joined
from idlestate.backends.keys import look_up, take_keys
from idlestate.backends.run import Run
from idlestate.backends.steps import Steps, TableSpec
from idlestate.retention.lives import Accesses, Walk
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS, Reason, is_due, saturating_add
from idlestate.retention.sequence import walk_sequence

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Tally:
    """What happened to keys, in numbers; adds up over batches and shards."""

    created: int = 0
    comebacks: int = 0
    expired: tuple[int, int, int] = (0, 0, 0)
    """By reason: lifetime, ttl, idle (the order of `Reason`)."""

    def plus(self, other: "Tally") -> "Tally":
        """Both together."""
        added = tuple(a + b for a, b in zip(self.expired, other.expired, strict=True))
        return Tally(
            self.created + other.created,
            self.comebacks + other.comebacks,
            (added[0], added[1], added[2]),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The next table, the change rows, and what happened."""

    table: "Table"
    changes: pa.Table
    tally: Tally


@dataclass(frozen=True, slots=True)
class Table:
    """The state of one shard."""

    spec: TableSpec
    run: Run
    ended: Ended = field(default_factory=Ended.empty)
    seen: sketch.Registers = field(default_factory=sketch.empty)
    """A sketch of every key that ever had a life."""

    @classmethod
    def empty(cls, spec: TableSpec) -> "Table":
        """A table that saw nothing."""
        return cls(spec, Run.empty(spec))

    def __len__(self) -> int:
        return len(self.run)

    def next_deadline_ms(self, policy: Policy) -> int:
        """When the first life ends, `FOREVER_MS` when none does."""
        if policy.is_unbounded or not len(self.run):
            return FOREVER_MS
        return int(self.run.lives.ends(policy).deadline_ms.min())

    def lives(self, policy: Policy) -> pa.Table:
        """Every life: keys, aggregates, times, last access, cleanup time, deadline and reason."""
        return life_columns(self.spec, self.run, policy)

    def apply(
        self, steps: Steps, policy: Policy, sweep_at_ms: int | None, batch_id: int
    ) -> Outcome:
        """Take in a batch, then close every life due at `sweep_at_ms` (None: sweep nothing).

        Raises:
            SumOverflowError: a sum leaves its type; the table is as before.
        """
        found = look_up(steps.hashes, steps.keys, self.run.hashes, self.run.keys)
        has_old = found >= 0
        old_rows = found[has_old]
        accesses = Accesses(steps.counts, steps.t_ms, steps.is_read)
        walk = walk_sequence(accesses, self.run.lives.take(old_rows), has_old, policy)
        touched = self._accumulate(steps, walk, old_rows)
        is_last = ~walk.is_closed
        is_over = walk.is_closed.copy()
        if sweep_at_ms is not None:
            is_over |= is_due(walk.ends.deadline_ms, sweep_at_ms)
        swept = self._due_elsewhere(old_rows, policy, sweep_at_ms)
        changes = self._changes(steps, walk, is_over, touched, swept, policy, batch_id)
        tally = _tally(walk, is_over, self._comebacks(walk, touched, policy), swept, self, policy)
        return Outcome(
            self._next(walk, is_over, is_last, touched, found, swept, policy, sweep_at_ms),
            changes,
            tally,
        )

    def _accumulate(self, steps: Steps, walk: Walk, old_rows: Ints) -> Run:
        """The lives of the walk as a run (not sorted yet: one row per life, in walk order)."""
        fields = []
        if len(walk.life_start):
            for aggregate, stored, added in zip(
                self.spec.aggregates, self.run.fields, steps.fields, strict=True
            ):
                taken = [
                    take_joined(take(a, old_rows), b, walk.source)
                    for a, b in zip(stored, added, strict=True)
                ]
                fields.append(aggregate.accumulator.reduce(taken, walk.life_start))
        else:
            fields = Run.empty(self.spec).fields
        return Run(steps.hashes[walk.key], take_keys(steps.keys, walk.key), walk.lives, fields)

    def _due_elsewhere(self, old_rows: Ints, policy: Policy, sweep_at_ms: int | None) -> Ints:
        """Rows of the table that the batch did not name and that the sweep takes."""
        if sweep_at_ms is None or policy.is_unbounded or not len(self.run):
            return np.zeros(0, dtype=np.int64)
        due = is_due(self.run.lives.ends(policy).deadline_ms, sweep_at_ms)
        due[old_rows] = False
        return np.flatnonzero(due)

    def _comebacks(self, walk: Walk, touched: Run, policy: Policy) -> int:
        previous_end = self.ended.look_up(touched.hashes)
        follows = np.zeros(len(walk.key), dtype=bool)
        follows[1:] = walk.key[1:] == walk.key[:-1]
        previous_end[1:] = np.where(follows[1:], walk.ends.deadline_ms[:-1], previous_end[1:])
        until = saturating_add(previous_end, policy.remember_for_ms)
        back = ~walk.is_old & (previous_end != NEVER_MS) & (walk.lives.created_at_ms <= until)
        return int(back.sum())

    def _changes(
        self,
        steps: Steps,
        walk: Walk,
        is_over: Flags,
        touched: Run,
        swept: Ints,
        policy: Policy,
        batch_id: int,
    ) -> pa.Table:
        shown = np.flatnonzero(is_over | walk.is_touched)
        ended = is_over[shown]
        parts = [Changes(touched.take(shown), walk.ends.take(shown), ended)]
        if len(swept):
            run = self.run.take(swept)
            parts.append(Changes(run, run.lives.ends(policy), np.ones(len(swept), dtype=bool)))
        silent = np.zeros(0, dtype=np.int64)
        if steps.is_read is not None:
            answered = np.zeros(len(steps), dtype=bool)
            answered[walk.key[walk.is_touched]] = True
            silent = np.flatnonzero(~answered)
        return change_rows(self.spec, parts, take_keys(steps.keys, silent), policy, batch_id)

    def _next(
        self,
        walk: Walk,
        is_over: Flags,
        is_last: Flags,
        touched: Run,
        found: Ints,
        swept: Ints,
        policy: Policy,
        sweep_at_ms: int | None,
    ) -> "Table":
        stays = np.flatnonzero(is_last & ~is_over)
        m = len(self.run)
        at = found[walk.key[stays]]
        is_new = at < 0
        # Where each row of the next run comes from: a row of this one, or m + a row of `touched`.
        source = np.arange(m)
        source[at[~is_new]] = m + stays[~is_new]
        gone = np.zeros(m, dtype=bool)
        gone[swept] = True
        gone[found[found >= 0]] = True
        gone[at[~is_new]] = False
        if gone.any() or is_new.any():
            inserted = stays[is_new]
            kept = source[~gone]
            place = np.searchsorted(self.run.hashes[~gone], touched.hashes[inserted], side="right")
            source = np.insert(kept, place, m + inserted)
        run = self.run.joined(touched, source)
        born = touched.hashes[~walk.is_old]
        ended_here = np.flatnonzero(is_last & is_over)
        swept_ends = self.run.lives.take(swept).ends(policy).deadline_ms
        ended = self.ended.after(
            touched.hashes[stays[~walk.is_old[stays]]],
            np.concatenate([touched.hashes[ended_here], self.run.hashes[swept]]),
            np.concatenate([walk.ends.deadline_ms[ended_here], swept_ends]),
            policy.remember_for_ms,
            NEVER_MS if sweep_at_ms is None else sweep_at_ms,
        )
        seen = sketch.add(self.seen, born) if len(born) else self.seen
        return replace(self, run=run, ended=ended, seen=seen)


def _tally(
    walk: Walk, is_over: Flags, comebacks: int, swept: Ints, table: Table, policy: Policy
) -> Tally:
    reasons = np.concatenate(
        [walk.ends.reason[is_over], table.run.lives.take(swept).ends(policy).reason]
    )
    counts = np.bincount(reasons, minlength=len(Reason))
    return Tally(
        created=int((~walk.is_old).sum()),
        comebacks=comebacks,
        expired=(int(counts[0]), int(counts[1]), int(counts[2])),
    )

"""The table of one shard: lives of keys, and how a batch of records changes it.

`ShardTable.apply` is an entire micro-batch for one shard, as a pure function: table, records,
policy and sweep time in, change rows and the runs to write out. It does not depend on Spark, files
or clocks. `retention.lives` divides records into lives, and `backends.runs` stores lives; this
module looks up keys, adds up accumulators, and closes and shows ended lives.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.fields import join, take, to_int64
from idlestate.backends.runs.keys import take_keys
from idlestate.backends.runs.leaving_rows import portions
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import LOWEST_HASH, Next, Runs
from idlestate.backends.runs.table_schema import Reader, TableSchema
from idlestate.backends.shards import held_rows, keys_seen_sketch, remembered_keys
from idlestate.backends.shards.changelog_rows import Changes, change_rows
from idlestate.backends.shards.early_results import Showing, first_shown
from idlestate.backends.shards.emitted_rows import EmitsRecords, record_rows
from idlestate.backends.shards.key_counts import KeyCounts
from idlestate.backends.shards.shard_record import HELD, LIVES, OPEN, REMEMBERED
from idlestate.backends.shards.state_rows_of_lives import life_columns
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.stored_ttls import StoredTtls
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.age_buckets import count_ages
from idlestate.retention.lives import Accesses, DividedLives
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS, Ends, Reason, is_due, saturating_add
from idlestate.retention.times_running_back import walk_sequence

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A table after a batch: its runs, the change rows, and what happened."""

    spec: TableSpec
    current: Next
    remembered: Next
    seen: keys_seen_sketch.Registers
    changes: pa.Table | pa.RecordBatchReader
    """The change rows; for a join, a reader that creates them as they are read."""
    tally: KeyCounts
    first_end_ms: int
    """When the first life written by the batch is due; `FOREVER_MS` if none ever is."""
    others: Mapping[str, Next] = field(default_factory=dict)
    """The runs of tables that only some operators have, by name."""
    showing: Showing | None = None
    """Which windows were shown (`early_results`)."""
    newest_ms: int = NEVER_MS
    """The highest event time of the batch, in any shard."""
    failed: Sequence[Mapping[str, Any]] = ()
    """What is shown of records on which a function failed, with `on_error="reject"`."""
    ttls: StoredTtls = field(default_factory=StoredTtls)
    """For a function, the times to live under which its lives are stored."""

    @property
    def tables(self) -> dict[str, Next]:
        """The runs of every table of the shard, by name."""
        return {OPEN: self.current, REMEMBERED: self.remembered, **self.others}

    @property
    def keys_changed(self) -> int:
        """The number of open lives that the batch wrote or closed."""
        written = sum(len(of.fresh) for name, of in self.tables.items() if name in LIVES)
        return written + sum(self.tally.expired)

    @property
    def table(self) -> "ShardTable":
        """The next table, in memory."""
        runs = {name: following.in_memory() for name, following in self.tables.items()}
        return replace(ShardTable.of(self.spec, runs, self.seen), ttls=self.ttls)


@dataclass(frozen=True, slots=True)
class ShardTable:
    """The state of one shard."""

    spec: TableSpec
    """What the table keeps."""
    current: Runs
    """Open lives."""
    remembered: Runs = field(default_factory=lambda: Runs(remembered_keys.SCHEMA))
    """Keys that ended."""
    seen: keys_seen_sketch.Registers = field(default_factory=keys_seen_sketch.empty)
    """A sketch of every key that ever had a life."""
    others: Mapping[str, Runs] = field(default_factory=dict)
    """Tables that only some operators have, by name."""
    ttls: StoredTtls = field(default_factory=StoredTtls)
    """As in `Outcome`."""

    @classmethod
    def of(
        cls, spec: TableSpec, tables: Mapping[str, Runs], seen: keys_seen_sketch.Registers
    ) -> "ShardTable":
        """The table of these runs, by the names of `TableSpec.tables`."""
        others = {name: runs for name, runs in tables.items() if name not in (OPEN, REMEMBERED)}
        return cls(spec, tables[OPEN], tables[REMEMBERED], seen, others)

    @classmethod
    def empty(cls, spec: TableSpec) -> "ShardTable":
        """A new table."""
        tables = {name: Runs(schema) for name, schema in spec.tables.items()}
        return cls.of(spec, tables, keys_seen_sketch.empty())

    def __len__(self) -> int:
        return self.current.live

    @property
    def tables(self) -> dict[str, Runs]:
        """The runs of every table, by name."""
        return {OPEN: self.current, REMEMBERED: self.remembered, **self.others}

    def lives(self, policy: Policy) -> pa.Table:
        """Every life: keys, aggregates, times, last access, cleanup time, deadline and reason."""
        return pa.concat_tables(self.lives_in_parts(policy))

    def lives_in_parts(self, policy: Policy) -> Iterator[pa.Table]:
        """Every life as in `lives`, in order of hash and about 260,000 at a time."""
        since: int | None = LOWEST_HASH
        while since is not None:
            lives, since = self.some_lives(policy, since, MergePolicy().segment_rows)
            yield lives

    def some_lives(self, policy: Policy, since: int, most_rows: int) -> tuple[pa.Table, int | None]:
        """Some lives as in `lives`, and the hash to continue from, as in `Runs.open_rows`."""
        rows, following = self.current.open_rows(since, most_rows)
        return self.shown_lives(rows, policy), following

    def shown_lives(self, rows: Rows, policy: Policy) -> pa.Table:
        """Lives of the table as `lives` shows them."""
        whole = self.spec.kind.whole(self._shown(rows), self.others)
        return life_columns(self.spec, whole, policy)

    def apply(
        self,
        steps: Steps,
        policy: Policy,
        sweep_at_ms: int | None,
        batch_id: int,
        merge: MergePolicy,
        *,
        shows_updates: bool = True,
        showing: Showing | None = None,
    ) -> Outcome:
        """Apply a batch, then close every life due at `sweep_at_ms` (None: sweep nothing).

        Args:
            steps: the records.
            policy: the policy in force.
            sweep_at_ms: how far the sweep goes; with `in_order`, also which records are released.
            batch_id: the batch's number, higher than those before.
            merge: when runs are merged; changes no result.
            shows_updates: whether lives that continue have change rows; without these, nothing has
                checked whether their sums fit.
            showing: which windows are shown (`early_results`); None: those that the batch changes.

        Raises:
            SumOverflowError: a shown sum overflows its type; the table is unchanged.
        """
        others = {}
        if self.spec.in_order:
            held = self.others[HELD]
            steps, others[HELD] = held_rows.release(
                held, self.spec, steps, sweep_at_ms, batch_id, merge
            )
        kind = self.spec.life_kind
        if isinstance(kind, EmitsRecords):
            steps = steps.collapsed(kind)
        at, old = self.current.look_up(steps.hashes, steps.keys)
        has_old = at >= 0
        reads = None if kind.writes_once else steps.is_read
        begins_ms = self._begins_ms(steps)
        accesses = Accesses(steps.counts, steps.t_ms, reads, kind.writes_once, begins_ms)
        walk = walk_sequence(accesses, old.lives, has_old, policy)
        touched = self._touched(steps, walk, old)
        is_over = walk.is_closed.copy()
        if sweep_at_ms is not None:
            is_over |= is_due(walk.ends.deadline_ms, sweep_at_ms)
        due = self.current.due(policy, sweep_at_ms, at[has_old])
        swept = self._untouched(due, policy, merge, is_expire=True)
        swept_ends = Ends.joined([each.ends for each in swept])
        is_kept = ~is_over & (walk.is_touched | ~walk.is_old)
        # Positions of rows that are replaced or closed.
        moved = np.ones(len(steps), dtype=bool)
        moved[walk.key[~is_over & ~is_kept]] = False
        closed = np.concatenate([at[has_old & moved], due])
        tally = _tally(walk, is_over, self._absences_ms(walk, touched, policy), swept_ends)
        live = len(self) + tally.created - sum(tally.expired)
        over = np.flatnonzero(is_over & ~walk.is_closed)
        born = touched.hashes[~walk.is_old]
        shown = kind.shown(walk, is_over) & shows_updates
        if showing is not None:
            shown &= is_due(walk.ends.deadline_ms, showing.upto_ms)
        changes = [self._changes(walk, touched, is_over, shown), *swept]
        if showing is not None:
            besides = np.concatenate([at[has_old], due])
            first = first_shown(self.current, policy, showing, batch_id, besides)
            changes += self._untouched(first, policy, merge, is_expire=False)
        if isinstance(kind, EmitsRecords):
            stored = self._shown(old).payload
            emitted = record_rows(self.spec.shown_keys, kind, steps, stored, walk, batch_id)
        else:
            silent = _silent_keys(steps, walk)
            emitted = change_rows(self.spec, changes, silent, policy, batch_id)
        return Outcome(
            self.spec,
            self.current.after(
                self.kept(touched).take(is_kept), closed, live, policy, sweep_at_ms, batch_id, merge
            ),
            remembered_keys.remembered(
                self.remembered,
                touched.hashes[is_kept & ~walk.is_old],
                np.concatenate([touched.hashes[over], *(each.rows.hashes for each in swept)]),
                Ends.joined([walk.ends.take(over), swept_ends]),
                policy,
                sweep_at_ms,
                batch_id,
                merge,
            ),
            keys_seen_sketch.add(self.seen, born) if len(born) else self.seen,
            emitted,
            tally,
            int(walk.ends.deadline_ms[is_kept].min(initial=FOREVER_MS)),
            others,
            showing,
            steps.newest_ms,
        )

    def _begins_ms(self, steps: Steps) -> Ints | None:
        """When the lives of fixed-span windows begin; None for other keys."""
        window = self.spec.fixed_window
        return None if window is None else window.begins_ms(to_int64(steps.keys[-1]) // 1000)

    def _untouched(
        self, at: Ints, policy: Policy, merge: MergePolicy, *, is_expire: bool
    ) -> list[Changes]:
        """The changes of lives that have no record in the batch, at these positions."""
        if not len(at):
            return []
        parts = map(self._shown, portions(self.current, at, merge.segment_bytes))
        return [
            Changes(rows, rows.lives.ends(policy), np.full(len(rows), is_expire)) for rows in parts
        ]

    def _changes(
        self, walk: DividedLives, touched: Rows, is_over: Flags, is_shown: Flags
    ) -> Changes:
        """For each life in order, its update, its end, or both."""
        either = is_shown | is_over
        lives = np.flatnonzero(either)
        is_both = (is_shown & is_over)[lives]
        at = np.repeat(lives, 1 + is_both)
        is_expire = is_over[at]
        is_expire[:-1] &= at[1:] != at[:-1]
        rows = touched.take(at if is_both.any() else either)
        if self.spec.life_kind.writes_once:
            rows = self._as_begun(rows, ~is_expire)
        return Changes(rows, walk.ends.take(at), is_expire)

    def _as_begun(self, rows: Rows, is_begun: Flags) -> Rows:
        """Lives with their first record where they are shown when they begin, else with their
        stored columns.
        """
        read_at_ms = np.where(is_begun, NEVER_MS, rows.lives.read_at_ms)
        rows = replace(rows, lives=replace(rows.lives, read_at_ms=read_at_ms))
        if is_begun.all():
            return rows
        kept = self._shown(self.kept(rows)).payload
        at = np.arange(len(rows)) + len(rows) * is_begun
        payload = [take(join(both), at) for both in zip(kept, rows.payload, strict=True)]
        return replace(rows, payload=payload)

    def _touched(self, steps: Steps, walk: DividedLives, old: Rows) -> Rows:
        """The lives of the walk, in order of hash and time; a key may have several."""
        kind = self.spec.life_kind
        payload = [column.blanks(0) for column in kind.life]
        if len(walk.life_start):
            payload = kind.of_lives(self._shown(old).payload, steps.carried, walk)
        return Rows(steps.hashes[walk.key], take_keys(steps.keys, walk.key), walk.lives, payload)

    def _shown(self, rows: Rows) -> Rows:
        """Stored rows with every column of a life."""
        if self.spec.has_own_step:
            return rows
        kind = self.spec.life_kind
        if kind.life == kind.stored:
            return rows
        reader = Reader.of(TableSchema((), kind.life), [column.id for column in kind.stored])
        return replace(rows, payload=reader.read(rows.payload, len(rows)))

    def kept(self, lives: Rows) -> Rows:
        """Lives with the columns that are stored."""
        kind = self.spec.life_kind
        if kind.life == kind.stored:
            return lives
        by_id = dict(zip((column.id for column in kind.life), lives.payload, strict=True))
        return replace(lives, payload=[by_id[column.id] for column in kind.stored])

    def _absences_ms(self, walk: DividedLives, touched: Rows, policy: Policy) -> Ints:
        """How long each returning key was absent: from the end of its last life to the start of the
        next.
        """
        is_new = np.flatnonzero(~walk.is_old)
        previous_end = np.full(len(walk.key), NEVER_MS)
        previous_end[is_new] = remembered_keys.ends_of(self.remembered, touched.hashes[is_new])
        follows = np.zeros(len(walk.key), dtype=bool)
        follows[1:] = walk.key[1:] == walk.key[:-1]
        previous_end[1:] = np.where(follows[1:], walk.ends.deadline_ms[:-1], previous_end[1:])
        until = saturating_add(previous_end, policy.remember_for_ms)
        begun_ms = walk.lives.created_at_ms
        back = ~walk.is_old & (previous_end != NEVER_MS) & (begun_ms <= until)
        away_ms: Ints = np.maximum(begun_ms[back] - previous_end[back], 0)  # time may go backwards
        return away_ms


def _silent_keys(steps: Steps, walk: DividedLives) -> list[pa.Array]:
    """Keys that were read and have no open life."""
    if steps.is_read is None:
        return [column.slice(0, 0) for column in steps.keys]
    answered = np.zeros(len(steps), dtype=bool)
    answered[walk.key[walk.is_touched]] = True
    return take_keys(steps.keys, np.flatnonzero(~answered))


def _tally(walk: DividedLives, is_over: Flags, absences_ms: Ints, swept: Ends) -> KeyCounts:
    reasons = np.concatenate([walk.ends.reason[is_over], swept.reason])
    counts = np.bincount(reasons, minlength=len(Reason))
    return KeyCounts(
        created=int((~walk.is_old).sum()),
        returning_keys=len(absences_ms),
        expired=(int(counts[0]), int(counts[1]), int(counts[2])),
        absences=count_ages(absences_ms),
        absent_ms=int(absences_ms.sum()),
    )

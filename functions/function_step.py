"""Applies a batch to a shard of a function, as `ShardTable.apply` does for other operators."""

import copy
import gc
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.keys import take_keys
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.sweeps import timed
from idlestate.backends.shards import held_rows, keys_seen_sketch, remembered_keys
from idlestate.backends.shards.changed_ttls import ttls_of, under_ttls
from idlestate.backends.shards.function_state import FunctionState
from idlestate.backends.shards.key_counts import KeyCounts
from idlestate.backends.shards.shard_record import HELD
from idlestate.backends.shards.shard_table import Outcome, ShardTable
from idlestate.backends.shards.state_entries import StateEntries
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.functions.bound_function import BoundFunction
from idlestate.functions.declared_states import OpenFunction
from idlestate.functions.errors import FunctionError, error_in_open, log_replaced
from idlestate.functions.hot_keys import hot_keys
from idlestate.functions.keys_after import KeysAfter
from idlestate.functions.loop_step import one_by_one
from idlestate.functions.record_order import in_row_order
from idlestate.functions.wave_step import in_waves
from idlestate.retention.age_buckets import count_ages
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS, Ends, Reason, is_due, saturating_add

Ints = npt.NDArray[np.int64]


def apply_function(
    bound: BoundFunction,
    table: ShardTable,
    steps: Steps,
    policy: Policy,
    sweep_at_ms: int | None,
    batch_id: int,
    merge: MergePolicy,
) -> Outcome:
    """Apply a batch to a shard; arguments after the function as in `ShardTable.apply`.

    Raises:
        FunctionError: the function raised an error, or yielded what is not valid.
    """
    others = {}
    if table.spec.in_order:
        held = table.others[HELD]
        steps, others[HELD] = held_rows.release(
            held, table.spec, steps, sweep_at_ms, batch_id, merge
        )
    steps = in_row_order(steps)
    kind = table.spec.kind
    assert isinstance(kind, FunctionState)
    ttls = ttls_of(kind, table.current.schema, dict(bound.ttls_ms))
    table = replace(table, current=under_ttls(table.current, kind, table.ttls, ttls))
    at, old = table.current.look_up(steps.hashes, steps.keys)
    rule = timed(policy)
    due = table.current.due(rule, sweep_at_ms, at[at >= 0])
    step = _Step(bound, table, steps, policy, at, old, table.current.take(due), batch_id)

    collects, process_id = gc.isenabled(), os.getpid()
    gc.disable()  # collections are slow here, and find no garbage
    try:
        try:
            found = step.outcome(
                step.first_try(sweep_at_ms), due, rule, sweep_at_ms, batch_id, merge
            )
        except FunctionError as error:
            if os.getpid() != process_id or not (bound.rejects or bound.is_batched):
                raise
            after = step.after(sweep_at_ms, rejects=bound.rejects)
            if not after.failed:
                if not bound.rejects:
                    raise  # calls with one key each do not fail: the function must be corrected
                log_replaced(bound.uid, error)
            found = step.outcome(after, due, rule, sweep_at_ms, batch_id, merge)
        ttls = table.ttls.after(ttls, sweep_at_ms)
        return replace(found, others={**found.others, **others}, ttls=ttls)
    finally:
        if os.getpid() != process_id:
            os._exit(70)  # a process that the function forked must not continue here
        if collects:
            gc.enable()


@dataclass(frozen=True)
class _Step:
    """One batch: k keys with records, whose stored lives are in `old`, then lives that are due."""

    bound: BoundFunction
    table: ShardTable
    steps: Steps
    policy: Policy
    at: Ints
    old: Rows
    swept: Rows
    batch_id: int

    @property
    def _kind(self) -> FunctionState:
        kind = self.table.spec.kind
        assert isinstance(kind, FunctionState)
        return kind

    def first_try(self, sweep_at_ms: int | None) -> KeysAfter:
        """The keys after calls of the function in its faster form."""
        if not self.bound.is_batched:
            return self.after(sweep_at_ms, rejects=False)
        is_hot = np.zeros(len(self.steps), dtype=bool)
        if self.bound.form == "both":
            is_hot = hot_keys(self.steps.counts, len(self.bound.inputs))
        hot, others = self._of(is_hot), self._of(~is_hot)
        none = self.swept.take(np.zeros(0, dtype=np.int64))
        parts = []
        if len(hot.steps):
            one_by_one = replace(hot, swept=none).after(sweep_at_ms, rejects=False)
            parts.append(one_by_one.of_keys(np.flatnonzero(is_hot)))
        kind, names = self._kind, self.table.spec.key_names
        found = in_waves(
            *(self.bound, kind, names, self._opened(), self.policy),
            *(others.steps, others.at, others.old, self.swept, sweep_at_ms),
        )
        swept = np.arange(len(self.steps), len(self.steps) + len(self.swept))
        parts.append(found.of_keys(np.concatenate([np.flatnonzero(~is_hot), swept])))
        return KeysAfter.joined(parts)

    def _of(self, keys: npt.NDArray[np.bool_]) -> "_Step":
        """A step with only some of the keys with records."""
        old = np.flatnonzero(keys[self.at >= 0])
        return replace(self, steps=self.steps.take(keys), at=self.at[keys], old=self.old.take(old))

    def _opened(self) -> OpenFunction:
        bound = self.bound
        try:
            return OpenFunction(copy.copy(bound.function))
        except (
            BaseException
        ) as error:  # as in the loop: sys.exit would end workers without a message
            raise error_in_open(bound.uid, bound.name, error) from error

    def after(self, sweep_at_ms: int | None, *, rejects: bool) -> KeysAfter:
        """The keys after calls of the function with one key at a time.

        `rejects`: calls that fail are undone and rejected.
        """
        return one_by_one(
            self.bound,
            self.table,
            self._opened(),
            self.policy,
            self.steps,
            self.at,
            self.old,
            self.swept,
            sweep_at_ms,
            self.batch_id,
            rejects=rejects,
        )

    def outcome(
        self,
        after: KeysAfter,
        due: Ints,
        rule: Policy,
        sweep_at_ms: int | None,
        batch_id: int,
        merge: MergePolicy,
    ) -> Outcome:
        """The next table and the function's rows."""
        steps, table = self.steps, self.table
        hashes = np.concatenate([steps.hashes, self.swept.hashes])
        keys = [pa.concat_arrays(each) for each in zip(steps.keys, self.swept.keys, strict=True)]
        kept = Rows(hashes[after.kept], take_keys(keys, after.kept), after.lives, after.payload)
        fresh = self._with_tombstones(kept, after.kept, hashes, keys, rule, sweep_at_ms)
        has_old = self.at >= 0
        closed = np.concatenate([self.at[has_old], due])
        live = len(table) + len(kept) - len(closed)
        ttls_ms = dict(self.bound.ttls_ms)
        others = {
            state.table: StateEntries(state, table.others[state.table]).after(
                after.entries.get(state.table),
                ttls_ms.get(state.name, 0),
                sweep_at_ms,
                batch_id,
                merge,
            )
            for state in self._kind.states
            if state.table is not None
        }
        born, ends = after.born, Ends(after.gone_ms, after.gone_why.astype(np.int8))
        return Outcome(
            table.spec,
            table.current.after(fresh, closed, live, rule, sweep_at_ms, batch_id, merge),
            remembered_keys.remembered(
                table.remembered,
                np.unique(hashes[born]),
                hashes[after.gone],
                ends,
                self.policy,
                sweep_at_ms,
                batch_id,
                merge,
            ),
            keys_seen_sketch.add(table.seen, hashes[born]) if len(born) else table.seen,
            after.output,
            self._counts(after, hashes),
            int(kept.lives.due_ms(rule).min(initial=FOREVER_MS)),
            others,
            failed=after.failed,
        )

    def _with_tombstones(
        self,
        kept: Rows,
        kept_keys: Ints,
        hashes: Ints,
        keys: Sequence[pa.Array],
        rule: Policy,
        sweep_at_ms: int | None,
    ) -> Rows:
        """The rows to write, including tombstones of lives that ended without a sweep."""
        is_over = np.concatenate([self.at >= 0, np.zeros(len(self.swept), dtype=bool)])
        old_due_ms = self.old.lives.due_ms(rule)
        if sweep_at_ms is not None:
            is_over[np.flatnonzero(is_over)[is_due(old_due_ms, sweep_at_ms)]] = False
        is_over[kept_keys] = False
        over = np.flatnonzero(is_over)
        never = np.full(len(over), NEVER_MS)
        tombs = Rows(
            hashes[over],
            take_keys(keys, over),
            Lives(never, never, never, never),
            [column.blanks(len(over)) for column in self._kind.stored],
        )
        every = np.concatenate([kept.hashes, tombs.hashes])
        return Rows.gathered([kept, tombs], np.argsort(every, kind="stable"))

    def _counts(self, after: KeysAfter, hashes: Ints) -> KeyCounts:
        """The counts of created, expired and returning keys."""
        before_ms, begun_ms = after.before_ms.copy(), after.born_ms
        looked_up = ~after.is_known
        before_ms[looked_up] = remembered_keys.ends_of(
            self.table.remembered, hashes[after.born[looked_up]]
        )
        until = saturating_add(before_ms, self.policy.remember_for_ms)
        is_back = (before_ms != NEVER_MS) & (begun_ms <= until)
        absences_ms = np.maximum(begun_ms[is_back] - before_ms[is_back], 0)
        counts = np.bincount(after.reasons, minlength=len(Reason))
        return KeyCounts(
            created=len(after.born),
            returning_keys=len(absences_ms),
            expired=(int(counts[0]), int(counts[1]), int(counts[2])),
            absences=count_ages(absences_ms),
            absent_ms=int(absences_ms.sum()),
        )

"""What a batch makes of a shard of a function: as `ShardTable.apply` does for other operators.

Lives, states and timers become lists of Python values once per batch, and columns again.
"""

import copy
import gc
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.fields import Field, join
from idlestate.backends.runs.keys import take_keys
from idlestate.backends.runs.python_values import python_values
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.sweeps import timed
from idlestate.backends.shards import held_rows, keys_seen_sketch, remembered_keys
from idlestate.backends.shards.function_state import FunctionState
from idlestate.backends.shards.key_counts import KeyCounts
from idlestate.backends.shards.shard_record import HELD
from idlestate.backends.shards.shard_table import Outcome, ShardTable
from idlestate.backends.shards.state_columns import StateColumns
from idlestate.backends.shards.state_entries import ChangedEntries, StateEntries
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.functions.bound_function import BoundFunction
from idlestate.functions.call_checks import CallChecks
from idlestate.functions.declared_states import OpenFunction
from idlestate.functions.errors import FunctionError, error_in_open, error_of
from idlestate.functions.function_output import output_table
from idlestate.functions.function_rows import function_rows
from idlestate.functions.key_loop import KeyLoop
from idlestate.functions.keys_after import KeysAfter
from idlestate.functions.large_states import LargeState
from idlestate.functions.one_key_calls import OneKeyCalls
from idlestate.functions.row_order import in_row_order
from idlestate.functions.timer_columns import timer_fields, timers_of
from idlestate.functions.visited_keys import KeysToVisit, Visited
from idlestate.functions.wave_step import hot_keys, in_waves
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
    """Take a batch into a shard; arguments after the function as of `ShardTable.apply`.

    Raises:
        FunctionError: the function raised an error, or yielded what is not valid.
    """
    others = {}
    if table.spec.in_order:
        held = table.others[HELD]
        steps, others[HELD] = held_rows.release(held, steps, sweep_at_ms, batch_id, merge)
    steps = in_row_order(steps)
    at, old = table.current.look_up(steps.hashes, steps.keys)
    rule = timed(policy)
    due = table.current.due(rule, sweep_at_ms, at[at >= 0])
    step = _Step(bound, table, steps, policy, at, old, table.current.take(due), batch_id)

    collects, process_id = gc.isenabled(), os.getpid()
    gc.disable()  # a batch makes millions of objects and no garbage: looking for it takes long
    try:
        try:
            found = step.outcome(
                step.first_try(sweep_at_ms), due, rule, sweep_at_ms, batch_id, merge
            )
        except FunctionError:
            if os.getpid() != process_id or not (bound.rejects or bound.is_batched):
                raise
            after = step.after(sweep_at_ms, rejects=bound.rejects)
            if bound.is_batched and not after.failed:
                raise  # calls with one key each do not fail: the function is to be corrected
            found = step.outcome(after, due, rule, sweep_at_ms, batch_id, merge)
        return replace(found, others={**found.others, **others})
    finally:
        if os.getpid() != process_id:
            os._exit(70)  # a process that the function forked must not go on as this one does
        if collects:
            gc.enable()


@dataclass(frozen=True)
class _Step:
    """One batch: k keys with records, of which `old` have a life, then lives that are due."""

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
        """What the function makes of the keys, in the form that is faster."""
        if not self.bound.is_batched:
            return self.after(sweep_at_ms, rejects=False)
        is_hot = np.zeros(len(self.steps), dtype=bool)
        if self.bound.form == "both":
            is_hot = hot_keys(self.steps.counts)
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
        """The same of some keys with records."""
        old = np.flatnonzero(keys[self.at >= 0])
        return replace(self, steps=self.steps.take(keys), at=self.at[keys], old=self.old.take(old))

    def _opened(self) -> OpenFunction:
        bound = self.bound
        try:
            return OpenFunction(copy.copy(bound.function))
        except BaseException as error:  # as in the loop: sys.exit ends workers without a word
            raise error_in_open(bound.uid, bound.name, error) from error

    def after(self, sweep_at_ms: int | None, *, rejects: bool) -> KeysAfter:
        """What the function makes of the keys, called with one at a time.

        `rejects`: calls that fail are undone and rejected.
        """
        bound, opened = self.bound, self._opened()
        checks = None
        if rejects:
            checks = CallChecks(bound.uid, bound.output)
        function = opened.function
        if bound.form == "batched":
            function = self._one_key_calls(opened)
        cells = list(opened.cells.values())
        large = self._large_states(opened)
        loop = KeyLoop(bound.uid, function, opened.context, cells, self.policy, checks)
        loop.visit(self.to_visit(large), sweep_at_ms)
        return self._in_columns(loop.visited, large)

    def _large_states(self, opened: OpenFunction) -> list[LargeState | None]:
        """For each state its large lists or maps; None of other kinds."""
        return [
            None
            if state.table is None
            else LargeState(
                state, self.table.others[state.table], descriptor.ttl.ttl_ms, self.batch_id
            )
            for state, descriptor in zip(self._kind.states, opened.declared, strict=True)
        ]

    @property
    def _hashes(self) -> Ints:
        """Those of the keys."""
        return np.concatenate([self.steps.hashes, self.swept.hashes])

    def _one_key_calls(self, opened: OpenFunction) -> OneKeyCalls:
        spec, bound = self.table.spec, self.bound
        types = dict(spec.keys) | dict(self._kind.payload)
        function: Any = opened.function
        states: Any = opened.declared
        columns = [types[name] for name in bound.inputs[0]]
        return OneKeyCalls(function, states, [kind for _, kind in spec.keys], columns, bound.output)

    def _in_columns(self, visited: Visited, large: Sequence[LargeState | None]) -> KeysAfter:
        born = [(key, at, NEVER_MS if ms is None else ms) for key, at, ms in visited.births]
        gone = [(key, at_ms, int(why)) for key, at_ms, why in visited.gone]
        kept = np.array(visited.kept, dtype=np.int64)
        keys = [
            pa.concat_arrays(each) for each in zip(self.steps.keys, self.swept.keys, strict=True)
        ]
        created, written, read, armed = _columns(visited.lives, 4)
        wakes = np.array(visited.wakes_at_ms, dtype=np.int64)
        kept_keys = take_keys(keys, kept)
        payload: list[Field] = []
        entries, hashes = dict[str, ChangedEntries](), self._hashes[kept]
        states = zip(self._kind.states, visited.contents, large, strict=True)
        for state, contents, apart in states:
            plain = contents if apart is None else apart.plain(contents)
            fields = self._fields(state, plain, kept_keys, written)
            if apart is not None:
                fields = apart.closed(fields, contents, hashes)
                if state.table is not None and apart.changed is not None:
                    entries[state.table] = apart.changed
            payload += fields
        born_key, born_ms, before_ms = _columns(born, 3)
        gone_key, gone_ms, gone_why = _columns(gone, 3)
        return KeysAfter(
            kept,
            Lives(created, written, read, armed, wakes),
            [*payload, *timer_fields(visited.timers)],
            born_key,
            born_ms,
            before_ms,
            np.array([ms is not None for _, _, ms in visited.births], dtype=bool),
            np.array([int(why) for _, _, why in visited.ends], dtype=np.int64),
            gone_key,
            gone_ms,
            gone_why,
            output_table(self.bound, visited),
            visited.failed,
            entries,
        )

    def to_visit(self, large: Sequence[LargeState | None]) -> KeysToVisit:
        """The keys, their records and lives."""
        steps, due = self.steps, len(self.swept)
        has_old = [*(self.at >= 0).tolist(), *([True] * due)]
        lives = Lives.joined([self.old.lives, self.swept.lives])
        payload = [join(each) for each in zip(self.old.payload, self.swept.payload, strict=True)]
        columns = [*lives.columns[:4], lives.cleanup_at_ms(self.policy)]
        columns.append(lives.ends(self.policy).deadline_ms)
        written_ms = lives.written_at_ms.tolist()
        keys = [pa.concat_arrays(each) for each in zip(steps.keys, self.swept.keys, strict=True)]
        return KeysToVisit(
            _key_values(keys),
            [*steps.counts.tolist(), *([0] * due)],
            function_rows(steps, self.table.spec.key_names, self._kind.payload, self.bound.inputs),
            iter(steps.t_ms.tolist()),
            None if steps.is_read is None else iter(steps.is_read.tolist()),
            _spread(zip(*(each.tolist() for each in columns), strict=True), has_old),
            [
                _spread(iter(contents), has_old)
                for contents in self._contents(payload, written_ms, large, has_old)
            ],
            _spread(iter(timers_of(payload[-2:])), has_old),
        )

    def _contents(
        self,
        payload: Sequence[Field],
        written_ms: Sequence[int],
        large: Sequence[LargeState | None],
        has_old: Sequence[bool],
    ) -> Iterator[list[Any]]:
        """Of each state the contents of the lives."""
        hashes = self._hashes[np.array(has_old, dtype=bool)]
        for (state, fields), apart in zip(self._kind.split(payload), large, strict=True):
            contents = state.contents(fields, written_ms)
            yield contents if apart is None else apart.opened(contents, hashes)

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
        others = {
            state.table: StateEntries(state, table.others[state.table]).after(
                after.entries.get(state.table), sweep_at_ms, batch_id, merge
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

    def _fields(
        self, state: StateColumns, contents: Sequence[Any], keys: Sequence[pa.Array], at_ms: Ints
    ) -> list[Field]:
        try:
            return state.to_fields(contents)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            for number, content in enumerate(contents):
                try:
                    state.to_fields([content])
                except (pa.ArrowException, OverflowError, TypeError, ValueError) as problem:
                    raise error_of(
                        self.bound.uid,
                        self.bound.name,
                        _key_values(take_keys(keys, np.array([number])))[0],
                        int(at_ms[number]),
                        f"left in state {state.name!r} what its type cannot hold: {problem}",
                    ) from error
            raise

    def _with_tombstones(
        self,
        kept: Rows,
        kept_keys: Ints,
        hashes: Ints,
        keys: Sequence[pa.Array],
        rule: Policy,
        sweep_at_ms: int | None,
    ) -> Rows:
        """The rows to write: also that a life is over that no sweep closed."""
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
        """What happened to keys."""
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


def _spread(values: Iterator[Any], there: Sequence[bool]) -> list[Any]:
    """The values in turn where they are there, else None."""
    return [next(values) if each else None for each in there]


def _key_values(keys: Sequence[pa.Array]) -> list[Any]:
    if len(keys) == 1:
        return python_values(keys[0])
    return list(zip(*map(python_values, keys), strict=True))


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> list[Ints]:
    found = np.array(rows, dtype=np.int64).reshape(-1, width)
    return [np.ascontiguousarray(found[:, at]) for at in range(width)]

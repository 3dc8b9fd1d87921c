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
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.functions.bound_function import BoundFunction
from idlestate.functions.call_checks import CallChecks
from idlestate.functions.declared_states import OpenFunction
from idlestate.functions.errors import FunctionError, error_in_open, error_of
from idlestate.functions.function_output import output_table
from idlestate.functions.function_rows import function_rows
from idlestate.functions.key_loop import KeyLoop
from idlestate.functions.row_order import in_row_order
from idlestate.functions.timer_columns import timer_fields, timers_of
from idlestate.functions.visited_keys import KeysToVisit, Visited
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
    step = _Step(bound, table, steps, policy, at, old, table.current.take(due))

    def outcome(*, rejects: bool) -> Outcome:
        visited = step.visited(sweep_at_ms, rejects=rejects)
        return step.outcome(visited, due, rule, sweep_at_ms, batch_id, merge)

    collects, process_id = gc.isenabled(), os.getpid()
    gc.disable()  # a batch makes millions of objects and no garbage: looking for it takes long
    try:
        try:
            found = outcome(rejects=False)
        except FunctionError:
            if not bound.rejects or os.getpid() != process_id:
                raise
            found = outcome(rejects=True)
        return replace(found, others=others)
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

    @property
    def _kind(self) -> FunctionState:
        kind = self.table.spec.kind
        assert isinstance(kind, FunctionState)
        return kind

    def visited(self, sweep_at_ms: int | None, *, rejects: bool) -> Visited:
        """What the function makes of the keys; whether calls that fail are undone and rejected."""
        bound = self.bound
        try:
            opened = OpenFunction(copy.copy(bound.function))
        except BaseException as error:  # as in the loop: sys.exit ends workers without a word
            raise error_in_open(bound.uid, bound.name, error) from error
        checks = None
        if rejects:
            checks = CallChecks(bound.uid, bound.output)
        cells = list(opened.cells.values())
        loop = KeyLoop(bound.uid, opened.function, opened.context, cells, self.policy, checks)
        loop.visit(self.to_visit(), sweep_at_ms)
        return loop.visited

    def to_visit(self) -> KeysToVisit:
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
                _spread(iter(state.contents(fields, written_ms)), has_old)
                for state, fields in self._kind.split(payload)
            ],
            _spread(iter(timers_of(payload[-2:])), has_old),
        )

    def outcome(
        self,
        visited: Visited,
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
        kept = self._kept(visited, hashes, keys)
        fresh = self._with_tombstones(kept, visited, hashes, keys, rule, sweep_at_ms)
        has_old = self.at >= 0
        closed = np.concatenate([self.at[has_old], due])
        live = len(table) + len(kept) - len(closed)
        born = np.array([key for key, _, _ in visited.births], dtype=np.int64)
        gone = [(key, at_ms, int(why)) for key, at_ms, why in visited.gone]
        gone_key, gone_ms, gone_why = _columns(gone, 3)
        ends = Ends(gone_ms, gone_why.astype(np.int8))
        return Outcome(
            table.spec,
            table.current.after(fresh, closed, live, rule, sweep_at_ms, batch_id, merge),
            remembered_keys.remembered(
                table.remembered,
                np.unique(hashes[born]),
                hashes[gone_key],
                ends,
                self.policy,
                sweep_at_ms,
                batch_id,
                merge,
            ),
            keys_seen_sketch.add(table.seen, hashes[born]) if len(born) else table.seen,
            output_table(self.bound, visited),
            self._counts(visited, hashes),
            int(kept.lives.due_ms(rule).min(initial=FOREVER_MS)),
            failed=visited.failed,
        )

    def _kept(self, visited: Visited, hashes: Ints, keys: Sequence[pa.Array]) -> Rows:
        """The open lives, in order of the keys."""
        at = np.array(visited.kept, dtype=np.int64)
        created, written, read, armed = _columns(visited.lives, 4)
        wakes = np.array(visited.wakes_at_ms, dtype=np.int64)
        kept_keys = take_keys(keys, at)
        payload: list[Field] = []
        for state, contents in zip(self._kind.states, visited.contents, strict=True):
            payload += self._fields(state, contents, kept_keys, written)
        payload += timer_fields(visited.timers)
        return Rows(hashes[at], kept_keys, Lives(created, written, read, armed, wakes), payload)

    def _fields(
        self, state: StateColumns, contents: list[Any], keys: Sequence[pa.Array], at_ms: Ints
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
        visited: Visited,
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
        is_over[np.array(visited.kept, dtype=np.int64)] = False
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

    def _counts(self, visited: Visited, hashes: Ints) -> KeyCounts:
        """What happened to keys."""
        looked_up = [key for key, _, before_ms in visited.births if before_ms is None]
        remembered_ms = iter(
            remembered_keys.ends_of(
                self.table.remembered, hashes[np.array(looked_up, dtype=np.int64)]
            ).tolist()
        )
        before_ms = np.array(
            [next(remembered_ms) if ms is None else ms for _, _, ms in visited.births],
            dtype=np.int64,
        )
        begun_ms = np.array([t_ms for _, t_ms, _ in visited.births], dtype=np.int64)
        until = saturating_add(before_ms, self.policy.remember_for_ms)
        is_back = (before_ms != NEVER_MS) & (begun_ms <= until)
        absences_ms = np.maximum(begun_ms[is_back] - before_ms[is_back], 0)
        reasons = np.array([int(why) for _, _, why in visited.ends], dtype=np.int64)
        counts = np.bincount(reasons, minlength=len(Reason))
        return KeyCounts(
            created=len(visited.births),
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

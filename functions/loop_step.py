"""Processes a batch of a shard with a function that is called with one key at a time.

Lives, states and timers are converted to lists of Python values once per batch, and back to
columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, join
from idlestate.backends.runs.keys import take_keys
from idlestate.backends.runs.python_values import python_values
from idlestate.backends.runs.rows import Rows
from idlestate.backends.shards.function_state import FunctionState
from idlestate.backends.shards.function_state_columns import StateColumns
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.state_entries import ChangedEntries
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.functions.bound_function import BoundFunction
from idlestate.functions.declared_states import OpenFunction
from idlestate.functions.errors import error_of
from idlestate.functions.function_rows import function_rows
from idlestate.functions.key_loop import KeyLoop
from idlestate.functions.keys_after import KeysAfter
from idlestate.functions.large_states import LargeState
from idlestate.functions.one_key_calls import OneKeyCalls
from idlestate.functions.rejected_calls import RejectedCalls
from idlestate.functions.timer_columns import timer_fields, timers_of
from idlestate.functions.visited_keys import KeysToVisit, Visited
from idlestate.functions.yielded_rows import output_table
from idlestate.retention.lives import Lives
from idlestate.retention.policy import Policy
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]


def one_by_one(
    bound: BoundFunction,
    table: ShardTable,
    opened: OpenFunction,
    policy: Policy,
    steps: Steps,
    at: Ints,
    old: Rows,
    swept: Rows,
    sweep_at_ms: int | None,
    batch_id: int,
    *,
    rejects: bool,
) -> KeysAfter:
    """Call the function with one key at a time, and close what is due.

    Args:
        bound, table: the operator.
        opened: the opened function.
        policy: the policy in force.
        steps: the records by key.
        at, old: each key's position in `old` (-1: no life), and the stored lives.
        swept: lives without records that are due.
        sweep_at_ms: the time up to which lives are closed; None closes none.
        batch_id: the number of the batch.
        rejects: whether failing calls are undone and rejected.

    Raises:
        FunctionError: a call raised an error, or returned something that does not fit.
    """
    kind = table.spec.kind
    assert isinstance(kind, FunctionState)
    keys = [pa.concat_arrays(each) for each in zip(steps.keys, swept.keys, strict=True)]
    hashes = np.concatenate([steps.hashes, swept.hashes])
    large = [
        None if state.table is None else LargeState(state, table.others[state.table], batch_id)
        for state in kind.states
    ]
    step = _LoopStep(bound, table, kind, policy, steps, at, old, swept, keys, hashes, large)
    function = opened.function
    if bound.form == "batched":
        function = step.one_key_calls(opened)
    cells = list(opened.cells.values())
    checks = RejectedCalls(bound.uid, bound.output) if rejects else None
    loop = KeyLoop(bound.uid, function, opened.context, cells, policy, checks)
    loop.visit(step.to_visit(), sweep_at_ms)
    return step.in_columns(loop.visited)


@dataclass(frozen=True)
class _LoopStep:
    bound: BoundFunction
    table: ShardTable
    kind: FunctionState
    policy: Policy
    steps: Steps
    at: Ints
    old: Rows
    swept: Rows
    keys: list[pa.Array]
    hashes: Ints
    large: Sequence[LargeState | None]
    """The large lists or maps of each state; None for other kinds."""

    def one_key_calls(self, opened: OpenFunction) -> OneKeyCalls:
        spec, bound = self.table.spec, self.bound
        types = dict(spec.keys) | dict(self.kind.payload)
        function: Any = opened.function
        states: Any = opened.declared
        return OneKeyCalls(function, states, [kind for _, kind in spec.keys], types, bound.output)

    def to_visit(self) -> KeysToVisit:
        """The keys, their records and lives."""
        steps, due = self.steps, len(self.swept)
        has_old = [*(self.at >= 0).tolist(), *([True] * due)]
        lives = Lives.joined([self.old.lives, self.swept.lives])
        payload = [join(each) for each in zip(self.old.payload, self.swept.payload, strict=True)]
        columns = [*lives.columns[:4], lives.cleanup_at_ms(self.policy)]
        columns.append(lives.ends(self.policy).deadline_ms)
        written_ms = lives.written_at_ms.tolist()
        return KeysToVisit(
            _key_values(self.keys),
            [*steps.counts.tolist(), *([0] * due)],
            function_rows(steps, self.table.spec.key_names, self.kind.payload, self.bound.inputs),
            iter(steps.t_ms.tolist()),
            None if steps.is_read is None else iter(steps.is_read.tolist()),
            _spread(zip(*(each.tolist() for each in columns), strict=True), has_old),
            [
                _spread(iter(contents), has_old)
                for contents in self._contents(payload, written_ms, has_old)
            ],
            _spread(iter(timers_of(payload[-2:])), has_old),
        )

    def _contents(
        self,
        payload: Sequence[Field],
        written_ms: Sequence[int],
        has_old: Sequence[bool],
    ) -> Iterator[list[Any]]:
        """The contents of the lives, per state."""
        hashes = self.hashes[np.array(has_old, dtype=bool)]
        for (state, fields), apart in zip(self.kind.split(payload), self.large, strict=True):
            contents = state.contents(fields, written_ms)
            yield contents if apart is None else apart.opened(contents, hashes)

    def in_columns(self, visited: Visited) -> KeysAfter:
        born = [(key, at, NEVER_MS if ms is None else ms) for key, at, ms in visited.births]
        gone = [(key, at_ms, int(why)) for key, at_ms, why in visited.gone]
        kept = np.array(visited.kept, dtype=np.int64)
        created, written, read, armed = _columns(visited.lives, 4)
        wakes = np.array(visited.wakes_at_ms, dtype=np.int64)
        kept_keys = take_keys(self.keys, kept)
        payload: list[Field] = []
        entries, hashes = dict[str, ChangedEntries](), self.hashes[kept]
        states = zip(self.kind.states, visited.contents, self.large, strict=True)
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


def _spread(values: Iterator[Any], there: Sequence[bool]) -> list[Any]:
    """The values in order at flagged positions, None elsewhere."""
    return [next(values) if each else None for each in there]


def _key_values(keys: Sequence[pa.Array]) -> list[Any]:
    if len(keys) == 1:
        return python_values(keys[0])
    return list(zip(*map(python_values, keys), strict=True))


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> list[Ints]:
    found = np.array(rows, dtype=np.int64).reshape(-1, width)
    return [np.ascontiguousarray(found[:, at]) for at in range(width)]

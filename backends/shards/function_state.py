"""The kind of operator behind `process`: a life keeps the states and timers of a user function.

It describes what is stored and what is shuffled. The function itself is not part of it, so state
can be read without the function's code.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field
from idlestate.backends.runs.python_values import python_values
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.runs.table_schema import Column, KeyColumns, TableSchema
from idlestate.backends.shards.entry_markers import Marker
from idlestate.backends.shards.function_state_columns import StateColumns
from idlestate.backends.shards.operator_kind import KindDefaults
from idlestate.backends.shards.packed_elements import packed_int64
from idlestate.backends.shards.state_entries import StateEntries, entry_counts, entry_schema
from idlestate.retention.policy import FOREVER_MS

Of = TypeVar("Of")
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PROCESS = "process"
_FUNCTION, _PAYLOAD = b"idlestate.function", b"idlestate.payload"
_STATE = "\x1fstate\x1f"
TIMERS = "timers"
SEPARATOR = "\x1f"
"""Separates the names of timers, in order of time and name; a plain timer has no name."""
_TIMER_COLUMNS = (
    Column("timer_names", pa.nulls(1, pa.string())),
    Column("timer_times", pa.nulls(1, pa.binary())),
)
_TIMERS_TYPE = pa.list_(pa.struct([("name", pa.string()), ("at_ms", pa.int64())]))


@dataclass(frozen=True)
class FunctionState(KindDefaults):
    """See `idlestate.backends.shards.operator_kind.OperatorKind`: records are carried unchanged.

    Attributes:
        function: the qualified name of the function, which is recorded and may change.
        states: its states.
        payload: the columns of a record that are shuffled in addition to its keys.
        given_columns: the columns of a record that the function sees, per input; they do not affect
            its state.
        output: the columns that it yields, as in `OperatorKind`; they do not affect its state.
        ttls_ms: times to live by state name; they do not affect the stored columns.
    """

    function: str
    states: tuple[StateColumns, ...]
    payload: tuple[tuple[str, pa.DataType], ...]
    given_columns: tuple[tuple[str, ...], ...] = ()
    output: pa.Schema = field(default_factory=lambda: pa.schema([]))
    ttls_ms: tuple[tuple[str, int], ...] = ()

    @classmethod
    def from_schema(
        cls, aggregates: Sequence[tuple[str, str, int]], schema: pa.Schema
    ) -> "FunctionState":
        """The kind from its stored form: names, texts and ids of states, and the result of
        `to_schema`.

        Raises:
            KeyError, ValueError: the parts do not fit together.
        """
        facts = schema.metadata or {}
        states = tuple(
            StateColumns.from_text(name, text, schema.field(_STATE + name).type, number)
            for name, text, number in aggregates
        )
        payload = tuple((name, schema.field(name).type) for name in json.loads(facts[_PAYLOAD]))
        return cls(facts[_FUNCTION].decode(), states, payload)

    def to_schema(self, inputs: Mapping[str, pa.DataType]) -> pa.Schema:
        """What a definition stores: the input columns, the types of states, the function's name."""
        states = {_STATE + each.name: each.shown_type for each in self.states}
        payload = json.dumps([name for name, _ in self.payload])
        facts = {_FUNCTION: self.function, _PAYLOAD: payload}
        return pa.schema({**inputs, **states}, metadata=facts)

    @property
    def name(self) -> str:
        """See `OperatorKind`."""
        return PROCESS

    @property
    def aggregates(self) -> tuple[StateColumns, ...]:
        """See `OperatorKind`: the states."""
        return self.states

    @property
    def inputs(self) -> Mapping[str, pa.DataType]:
        """See `OperatorKind`."""
        return dict(self.payload)

    @property
    def carried_as_given(self) -> Mapping[str, pa.DataType]:
        """See `OperatorKind`: all of them."""
        return self.inputs

    @cached_property
    def carried(self) -> tuple[Column, ...]:
        """See `OperatorKind`."""
        # The id is the name, so that waiting rows stay readable when the columns change.
        return tuple(
            Column(f"p_{name}", pa.nulls(1, kind), may_return=True) for name, kind in self.payload
        )

    @cached_property
    def stored(self) -> tuple[Column, ...]:
        """See `OperatorKind`: the columns of each state, then those of the timers."""
        return (*(column for each in self.states for column in each.columns), *_TIMER_COLUMNS)

    @cached_property
    def results(self) -> tuple[tuple[str, pa.DataType], ...]:
        """See `OperatorKind`: the states, then the timers."""
        return (*((each.name, each.shown_type) for each in self.states), (TIMERS, _TIMERS_TYPE))

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:  # noqa: ARG002
        """See `OperatorKind`."""
        return [values[name] for name, _ in self.payload]

    def at(self, carried: list[Field], t_ms: int) -> list[Field]:  # noqa: ARG002
        """See `OperatorKind`."""
        return carried

    def result(self, life: list[Field]) -> list[pa.Array]:
        """See `OperatorKind`."""
        shown = [each.shown(fields) for each, fields in self.split(life)]
        names, times = (python_values(field) for field in life[-2:])
        timers = [
            None if text is None else _timers_shown(text, rest)
            for text, rest in zip(names, times, strict=True)
        ]
        return [*shown, pa.array(timers, _TIMERS_TYPE)]

    def tables(self, keys: KeyColumns, stored: tuple[Column, ...]) -> dict[str, TableSchema]:
        """See `OperatorKind`: also those of the entries of large lists and maps."""
        usual = super().tables(keys, stored).items()
        found = {name: replace(each, ends_run_back=True) for name, each in usual}
        entries = {each.table: entry_schema(each) for each in self.states if each.table is not None}
        return found | entries

    def whole(self, rows: Rows, tables: Mapping[str, Runs]) -> Rows:
        """See `OperatorKind`: with all entries of their lists and maps."""
        payload: list[Field] = []
        for state, stored in self.split(rows.payload):
            fields = stored
            found = state.contents(fields, [0] * len(rows)) if state.table is not None else []
            at = [row for row, each in enumerate(found) if each.__class__ is Marker]
            if at:
                assert state.table is not None
                entries = StateEntries(state, tables[state.table])
                markers = [found[row] for row in at]
                for row, each in zip(at, entries.contents(markers, rows.hashes[at]), strict=True):
                    found[row] = each or None  # sweeps may have removed all entries
                fields = state.to_fields(found)
            payload += fields
        return replace(rows, payload=[*payload, *rows.payload[-2:]])

    def entry_counts(self, life: Sequence[Field]) -> dict[str, Ints]:
        """See `OperatorKind`: the entries of large lists and maps."""
        return {
            state.table: entry_counts(fields[-1])
            for state, fields in self.split(life)
            if state.table is not None
        }

    def split(self, life: Sequence[Of]) -> list[tuple[StateColumns, Sequence[Of]]]:
        """Each state with its columns, or with one item for each of its columns."""
        found, first = [], 0
        for each in self.states:
            stop = first + len(each.columns)
            found.append((each, life[first:stop]))
            first = stop
        return found


def first_timers_ms(timers: Sequence[Field]) -> Ints:
    """The time of each life's first timer; `FOREVER_MS` without one.

    Args:
        timers: the names and times of timers.
    """
    times_ms, begins, rows = packed_int64(timers[-1])
    found = np.full(len(timers[-1]), FOREVER_MS)
    found[rows] = times_ms[begins]
    return found


def _timers_shown(names: str, times: bytes) -> list[dict[str, Any]]:
    each_ms = np.frombuffer(times, dtype="<i8").tolist()
    return [
        {"name": name or None, "at_ms": at_ms}
        for name, at_ms in zip(names.split(SEPARATOR), each_ms, strict=True)
    ]

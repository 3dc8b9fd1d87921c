"""Aggregates: the accumulators behind what a user writes (`idlestate.config.sql.aggregate_text`).

An accumulator is a fixed list of fields per key. Records are *lifted* to accumulators of one
record, and accumulators are *reduced* per segment. A life's stored accumulator is an additional row
in front of its segment, so adding to state and aggregating a batch are the same operation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field
from idlestate.backends.runs.table_schema import Column
from idlestate.backends.shards.aggregate_functions import (
    AggregateRequest,
    AnyAccumulator,
    accumulator_of,
    is_supported,
)
from idlestate.backends.shards.collected_values import Collected
from idlestate.backends.shards.extremes import Extreme
from idlestate.backends.shards.own_accumulator import Classes
from idlestate.config.sql.aggregate_text import AggregateError, parse_call

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A named aggregate: its text as written and the accumulator that computes it."""

    name: str
    text: str
    id: int
    """Names its columns in files, `a<id>_<field>`: no other aggregate of the operator has it."""
    accumulator: AnyAccumulator
    inputs: tuple[tuple[str, pa.DataType], ...]
    """Columns it reads, with their types."""

    @property
    def result_type(self) -> pa.DataType:
        """The Arrow type of the result."""
        return self.accumulator.result_type

    @property
    def columns(self) -> tuple[Column, ...]:
        """The fields of its accumulator; the blank value is the accumulator of no records."""
        nothing = {name: pa.nulls(1, kind) for name, kind in self.inputs}
        blank = self.lift(nothing, np.zeros(1, dtype=bool), np.zeros(1, dtype=np.int64))
        return tuple(Column(f"a{self.id}_{at}", field) for at, field in enumerate(blank))

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:
        """Accumulators of single records; a read lifts to the blank accumulator, which changes
        nothing.
        """
        if isinstance(self.accumulator, Extreme | Collected):
            return self.accumulator.lift(dict(values), is_write, t_ms)
        return self.accumulator.lift(dict(values), is_write)

    def at(self, fields: list[Field], t_ms: int) -> list[Field]:
        """The accumulators as if their records were of this time (ms)."""
        if isinstance(self.accumulator, Extreme | Collected) and self.accumulator.by_time:
            return self.accumulator.at(fields, t_ms)
        return fields


def bind(
    texts: Mapping[str, str],
    types: Mapping[str, pa.DataType],
    order: tuple[str, ...] = (),
    classes: Classes | None = None,
    blanks: Mapping[str, pa.RecordBatch] | None = None,
) -> tuple[Aggregate, ...]:
    """Parse aggregates and bind them to the types of the input.

    Args:
        texts: result name to aggregate text.
        types: input column name to Arrow type.
        order: columns that order records of one event time, for first, last and lists.
        classes: classes of users' accumulators that cannot be imported.
        blanks: result name to the stored blank row of a user's accumulator.

    Raises:
        AggregateError: a syntax error, an unknown column, or a type the function does not accept.
    """
    classes, blanks = classes or {}, blanks or {}
    found = []
    for at, (name, text) in enumerate(texts.items()):
        call = parse_call(text)
        _check_columns(name, text, call.columns, types)
        request = AggregateRequest(name, text, call, types, order, classes, blanks.get(name))
        found.append(_bound(at, request))
    return tuple(found)


def _bound(at: int, request: AggregateRequest) -> Aggregate:
    accumulator = accumulator_of(request)
    by_time = isinstance(accumulator, Extreme | Collected) and accumulator.by_time
    columns = request.call.columns
    read = (*request.order, *columns) if by_time else columns
    inputs = tuple((column, request.types[column]) for column in dict.fromkeys(read))
    return Aggregate(request.name, request.text, at, accumulator, inputs)


def _check_columns(
    name: str, text: str, columns: tuple[str, ...], types: Mapping[str, pa.DataType]
) -> None:
    for column in columns:
        if column not in types:
            raise AggregateError(
                f"aggregate {name}: column {column} of {text} not found, or not of a simple "
                f"type; available: {', '.join(types)}",
                about=name,
            )
        if not is_supported(types[column]):
            raise AggregateError(
                f"aggregate {name}: {text} reads a column of type {types[column]}; aggregates "
                "take numbers, booleans, strings, binaries, dates and timestamps: select a part "
                "of it or cast it first",
                about=name,
            )

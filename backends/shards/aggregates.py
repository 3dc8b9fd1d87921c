"""Aggregates: the accumulators behind what a user writes (`idlestate.config.aggregate_text`).

An accumulator is a fixed list of fields per key. Records are *lifted* to accumulators of one
record, and accumulators are *reduced* per segment; a life's accumulator in the table is one more
row in front of its segment, so that adding to state and adding up a batch are one operation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field
from idlestate.backends.runs.table_schema import Column
from idlestate.backends.shards.accumulators import (
    Accumulator,
    AggregateRequest,
    accumulator_of,
    is_number,
)
from idlestate.backends.shards.collected_values import Collected
from idlestate.backends.shards.extremes import Extreme
from idlestate.config.aggregate_text import AggregateError, parse_call

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A named aggregate: its text as written and the accumulator that computes it."""

    name: str
    text: str
    id: int
    """Names its columns in files, `a<id>_<field>`: no other aggregate of the operator has it."""
    accumulator: Accumulator
    inputs: tuple[tuple[str, pa.DataType], ...]
    """Columns it reads, with their types."""

    @property
    def result_type(self) -> pa.DataType:
        """The Arrow type of the result."""
        return self.accumulator.result_type

    @property
    def columns(self) -> tuple[Column, ...]:
        """The fields of its accumulator; blank is what no record makes."""
        nothing = {name: pa.nulls(1, kind) for name, kind in self.inputs}
        blank = self.lift(nothing, np.zeros(1, dtype=bool), np.zeros(1, dtype=np.int64))
        return tuple(Column(f"a{self.id}_{at}", field) for at, field in enumerate(blank))

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:
        """Accumulators of single records; reads lift to the one that changes nothing."""
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
) -> tuple[Aggregate, ...]:
    """Parse aggregates and bind them to the types of the input.

    Args:
        texts: result name to aggregate text.
        types: input column name to Arrow type.
        order: columns that order records of one event time, for first and last.

    Raises:
        AggregateError: syntax, an unknown column, or a type the function has no meaning for.
    """
    return tuple(
        _bind(at, name, text, types, order) for at, (name, text) in enumerate(texts.items())
    )


def _bind(
    at: int, name: str, text: str, types: Mapping[str, pa.DataType], order: tuple[str, ...]
) -> Aggregate:
    call = parse_call(text)
    for column in call.columns:
        if column not in types:
            raise AggregateError(
                f"aggregate {name}: column {column} of {text} not found, or not of a simple "
                f"type; available: {', '.join(types)}"
            )
        if not _is_supported(types[column]):
            raise AggregateError(
                f"aggregate {name}: {text} reads a column of type {types[column]}; aggregates "
                "take numbers, booleans, strings, binaries, dates and timestamps: select a part "
                "of it or cast it first"
            )
    accumulator = accumulator_of(AggregateRequest(name, text, call, types, order))
    by_time = isinstance(accumulator, Extreme | Collected) and accumulator.by_time
    read = (*order, *call.columns) if by_time else call.columns
    inputs = tuple((column, types[column]) for column in dict.fromkeys(read))
    return Aggregate(name, text, at, accumulator, inputs)


def _is_supported(kind: pa.DataType) -> bool:
    return bool(
        is_number(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )

"""Aggregates: the accumulators behind what a user writes (`idlestate.config.aggregate_text`).

An accumulator is a fixed list of fields per key. Records are *lifted* to accumulators of one
record, and accumulators are *reduced* per segment; a life's accumulator in the table is one more
row in front of its segment, so that adding to state and adding up a batch are one operation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field
from idlestate.backends.runs.table_schema import Column
from idlestate.backends.shards.extremes import Extreme
from idlestate.backends.shards.sums import Count, ExactSum, FloatSum
from idlestate.backends.shards.variances import Variance
from idlestate.config.aggregate_text import AggregateError, Call, parse_call

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Accumulator = Count | ExactSum | FloatSum | Variance | Extreme


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
        if isinstance(self.accumulator, Extreme):
            return self.accumulator.lift(dict(values), is_write, t_ms)
        return self.accumulator.lift(dict(values), is_write)

    def at(self, fields: list[Field], t_ms: int) -> list[Field]:
        """The accumulators as if their records were of this time (ms)."""
        if isinstance(self.accumulator, Extreme) and self.accumulator.by_time:
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
    read = (*order, *call.columns) if call.function in ("first", "last") else call.columns
    inputs = tuple((column, types[column]) for column in dict.fromkeys(read))
    return Aggregate(name, text, at, _accumulator(name, text, call, types, order), inputs)


def _accumulator(
    name: str, text: str, call: Call, types: Mapping[str, pa.DataType], order: tuple[str, ...]
) -> Accumulator:
    if call.function == "count":
        return Count(call.columns[0] if call.columns else None)
    column = call.columns[0]
    kind = types[column]
    if call.function in ("sum", "avg"):
        average = call.function == "avg"
        _must_be(_is_number, name, text, kind, "sum and avg take numbers")
        if pa.types.is_floating(kind):
            return FloatSum(column, average)
        if pa.types.is_decimal(kind):
            return ExactSum(column, _decimal_result(kind, average), kind.scale, average)
        return ExactSum(column, pa.float64() if average else pa.int64(), None, average)
    if call.function in ("stddev", "stddev_pop", "variance", "var_pop"):
        _must_be(_is_number, name, text, kind, f"{call.function} takes numbers")
        is_deviation = call.function.startswith("stddev")
        return Variance(column, not call.function.endswith("_pop"), is_deviation)
    if call.function in ("bool_and", "bool_or"):
        _must_be(pa.types.is_boolean, name, text, kind, f"{call.function} takes booleans")
        largest = call.function == "bool_or"
        return Extreme((column,), (0,), largest, kind, (kind,), by_time=False)
    largest = call.function in ("max", "last", "max_by")
    if call.function in ("first", "last"):
        kept = (*order, column)
        compared = tuple(range(len(kept) + 1))
        return Extreme(kept, compared, largest, kind, tuple(types[c] for c in kept), by_time=True)
    compared = (1, 0) if len(call.columns) == 2 else (0,)
    kept_types = tuple(types[c] for c in call.columns)
    return Extreme(call.columns, compared, largest, kind, kept_types, by_time=False)


def _must_be(
    fits: Callable[[pa.DataType], bool], name: str, text: str, kind: pa.DataType, rule: str
) -> None:
    if not fits(kind):
        raise AggregateError(f"aggregate {name}: {text} is over a column of type {kind}; {rule}")


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _decimal_result(kind: pa.DataType, average: bool) -> pa.DataType:
    """Spark's result types: sum adds 10 digits, avg adds 4 before and after the point."""
    if not average:
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    precision, scale = kind.precision + 4, kind.scale + 4
    if precision > 38:
        whole = precision - scale
        scale = max(38 - whole, min(scale, 6))
        precision = 38
    return pa.decimal128(precision, scale)


def _is_supported(kind: pa.DataType) -> bool:
    return bool(
        _is_number(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )

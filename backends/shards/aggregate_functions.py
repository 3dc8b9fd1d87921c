"""Selects the accumulator for an aggregate by function and column type."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from idlestate.backends.shards.approximate_distinct_counts import ApproxDistinct
from idlestate.backends.shards.collected_values import Collected, DistinctCount
from idlestate.backends.shards.extremes import Extreme
from idlestate.backends.shards.own_accumulator import (
    Classes,
    OwnAccumulator,
    blank_of,
    class_of,
    loaded_class,
    state_of,
)
from idlestate.backends.shards.percentiles import ApproxPercentile
from idlestate.backends.shards.sums import Count, ExactSum, FloatSum
from idlestate.backends.shards.variances import Variance
from idlestate.config.sql.aggregate_text import AggregateError, Call

AnyAccumulator = (
    Count
    | ExactSum
    | FloatSum
    | Variance
    | ApproxPercentile
    | ApproxDistinct
    | DistinctCount
    | Extreme
    | Collected
    | OwnAccumulator
)


@dataclass(frozen=True, slots=True)
class AggregateRequest:
    """A requested aggregate.

    Attributes:
        name: the name of the result.
        text: the aggregate as the user wrote it.
        call: the parsed aggregate.
        types: types of the input's columns.
        order: columns that order records of one event time.
        classes: classes of users' accumulators.
        blank: the stored blank row of a user's accumulator; None for a new one.
    """

    name: str
    text: str
    call: Call
    types: Mapping[str, pa.DataType]
    order: tuple[str, ...]
    classes: Classes
    blank: pa.RecordBatch | None

    @property
    def column(self) -> str:
        """The column whose values count."""
        return self.call.columns[0]

    @property
    def kind(self) -> pa.DataType:
        """The type of that column."""
        return self.types[self.column]

    def takes(self, what: str, fits: Callable[[pa.DataType], bool]) -> None:
        """Refuse a column whose type the function does not accept.

        Raises:
            AggregateError: the function does not accept the type.
        """
        if not fits(self.kind):
            raise AggregateError(
                f"aggregate {self.name}: {self.text} is over a column of type {self.kind}; {what}",
                about=self.name,
            )


def accumulator_of(request: AggregateRequest) -> AnyAccumulator:
    """The accumulator of an aggregate.

    Raises:
        AggregateError: the function has no meaning for the column's type.
    """
    return _own(request) if request.call.is_own else _MAKERS[request.call.function](request)


def is_supported(kind: pa.DataType) -> bool:
    """Whether aggregates can read columns of a type, and users' accumulators can store it."""
    types = pa.types
    return bool(
        is_number(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
    )


def is_number(kind: pa.DataType) -> bool:
    """Whether the type is an integer, float or decimal."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _own(request: AggregateRequest) -> AnyAccumulator:
    name, reference, columns = request.name, request.call.function, request.call.columns
    kind, stored = request.classes.get(reference) or loaded_class(reference), request.blank
    if kind is None and stored is not None:
        return OwnAccumulator(name, reference, columns, stored, None)
    made = (kind or class_of(name, reference))(*columns)
    blank = blank_of(name, made)
    if stored is not None and state_of(stored) != state_of(blank):
        return OwnAccumulator(name, reference, columns, stored, None)  # refused when it is used
    *state, result = blank.schema
    if pa.types.is_list(result.type):
        result = result.with_type(result.type.value_type)
    for field in (*state, result):
        if not is_supported(field.type):
            raise AggregateError(
                f"aggregate {name}: {reference} declares {field.name} of type {field.type}; use "
                "numbers, booleans, strings, binaries, dates and timestamps"
            )
    return OwnAccumulator(name, reference, columns, blank, made)


def _count(request: AggregateRequest) -> AnyAccumulator:
    return Count(request.column if request.call.columns else None)


def _sum(request: AggregateRequest) -> AnyAccumulator:
    request.takes("sum and avg take numbers", is_number)
    kind, average = request.kind, request.call.function == "avg"
    if pa.types.is_floating(kind):
        return FloatSum(request.column, average)
    if pa.types.is_decimal(kind):
        return ExactSum(request.column, _decimal_result(kind, average), kind.scale, average)
    return ExactSum(request.column, pa.float64() if average else pa.int64(), None, average)


def _variance(request: AggregateRequest) -> AnyAccumulator:
    function = request.call.function
    request.takes(f"{function} takes numbers", is_number)
    is_sample = not function.endswith("_pop")
    return Variance(request.column, is_sample, is_deviation=function.startswith("stddev"))


def _percentile(request: AggregateRequest) -> AnyAccumulator:
    request.takes("approx_percentile takes numbers", is_number)
    p, accuracy = request.call.numbers
    result = pa.float64() if pa.types.is_decimal(request.kind) else request.kind
    return ApproxPercentile(request.column, p, int(accuracy), result)


def _approx_distinct(request: AggregateRequest) -> AnyAccumulator:
    return ApproxDistinct(request.column, *request.call.numbers)


def _distinct(request: AggregateRequest) -> AnyAccumulator:
    (limit,) = request.call.numbers
    return DistinctCount(request.column, request.kind, int(limit))


def _collected(request: AggregateRequest) -> AnyAccumulator:
    (limit,) = request.call.numbers
    function = request.call.function
    by_time = function != "top_n"
    kept = (*request.order, request.column) if by_time else request.call.columns[::-1]
    kept_types = tuple(request.types[each] for each in kept)
    return Collected(kept, kept_types, int(limit), by_time, is_set=function == "collect_set")


def _all_or_any(request: AggregateRequest) -> AnyAccumulator:
    request.takes(f"{request.call.function} takes booleans", pa.types.is_boolean)
    return _extreme(request)


def _extreme(request: AggregateRequest) -> AnyAccumulator:
    """Min, max, min_by and max_by; false is less than true."""
    columns = request.call.columns
    compared = (1, 0) if len(columns) == 2 else (0,)
    kept_types = tuple(request.types[each] for each in columns)
    is_largest = request.call.function in ("max", "max_by", "bool_or")
    return Extreme(columns, compared, is_largest, request.kind, kept_types, by_time=False)


def _first_or_last(request: AggregateRequest) -> AnyAccumulator:
    kept = (*request.order, request.column)
    compared = tuple(range(len(kept) + 1))
    kept_types = tuple(request.types[each] for each in kept)
    is_largest = request.call.function == "last"
    return Extreme(kept, compared, is_largest, request.kind, kept_types, by_time=True)


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


_MAKERS: dict[str, Callable[[AggregateRequest], AnyAccumulator]] = {
    "count": _count,
    **dict.fromkeys(("sum", "avg"), _sum),
    **dict.fromkeys(("stddev", "stddev_pop", "variance", "var_pop"), _variance),
    "approx_percentile": _percentile,
    "approx_count_distinct": _approx_distinct,
    "count_distinct": _distinct,
    **dict.fromkeys(("collect_list", "collect_set", "top_n"), _collected),
    **dict.fromkeys(("bool_and", "bool_or"), _all_or_any),
    **dict.fromkeys(("min", "max", "min_by", "max_by"), _extreme),
    **dict.fromkeys(("first", "last"), _first_or_last),
}

"""The rows that a function yielded, as columns."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from idlestate.backends.runs.python_values import column_of
from idlestate.functions.bound_function import BoundFunction
from idlestate.functions.errors import FunctionError, error_of, short
from idlestate.functions.visited_keys import Visited

_UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError)


def output_table(bound: BoundFunction, visited: Visited) -> pa.Table:
    """The rows of `visited.output` in the columns of the operator's output.

    Raises:
        FunctionError: a row is not a tuple with the right number of values, or a value has the
            wrong type.
    """
    rows, schema = visited.output, bound.output
    if not rows:
        return schema.empty_table()
    are_tuples = all(issubclass(each, (tuple, list)) for each in set(map(type, rows)))
    if are_tuples and set(map(len, rows)) == {len(schema)}:
        try:
            columns = [
                column_of(values, field.type)
                for field, values in zip(schema, zip(*rows, strict=True), strict=True)
            ]
        except _UNFIT:
            pass
        else:
            return pa.Table.from_arrays(columns, schema=schema)
    for at, row in enumerate(rows):
        problem = problem_of(row, schema)
        if problem is not None:
            raise _error(bound, visited.calls, at, problem)
    raise FunctionError(f"operator {bound.uid!r}: the rows of {bound.name} do not fit {schema}")


def problem_of(row: Any, schema: pa.Schema) -> str | None:
    """What is wrong with a row; None if it fits."""
    if not isinstance(row, (tuple, list)):
        return f"yielded {short(row)}, which is not a tuple"
    if len(row) != len(schema):
        return (
            f"yielded {short(row)} of {len(row)} values; output has {len(schema)}: "
            f"{', '.join(schema.names)}"
        )
    for field, value in zip(schema, row, strict=True):
        try:
            column_of([value], field.type)
        except _UNFIT as error:
            return f"yielded {short(value)} for column {field.name} of type {field.type}: {error}"
    return None


def _error(
    bound: BoundFunction,
    calls: Sequence[tuple[int, str, Any, int]],
    at: int,
    problem: str,
) -> FunctionError:
    number = bisect_right([count for count, *_ in calls], at)
    _, call, key, at_ms = calls[number]
    return error_of(bound.uid, f"{bound.name}.{call}", key, at_ms, problem)

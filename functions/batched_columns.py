"""Checks columns from a batched function against their Arrow type and length."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.python_values import column_of
from idlestate.errors import RefusedError
from idlestate.retention.policy import FOREVER_MS

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_FAMILIES = {
    "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary,
             pa.types.is_large_binary, pa.types.is_fixed_size_binary),
    "time": (pa.types.is_date, pa.types.is_timestamp),
    "list": (pa.types.is_list, pa.types.is_large_list),
}  # fmt: skip
_UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError)


def fitted(values: Any, kind: pa.DataType, n: int | None, what: str) -> pa.Array:
    """The values as a column of a type.

    Args:
        values: an Arrow or numpy array, or a list.
        kind: the type.
        n: the required number of values; None for any number.
        what: the column, for errors.

    Raises:
        RefusedError: they do not fit.
    """
    if not isinstance(values, (pa.Array, pa.ChunkedArray, np.ndarray, list, tuple)):
        raise RefusedError(
            f"{what} is {type(values).__name__}; pass an Arrow or numpy array with a value per row"
        )
    try:
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            found = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        elif _has_type(values):
            found = pa.array(values, from_pandas=False)
        else:
            found = column_of(values, kind)
        if found.null_count < len(found) and _family(found.type) != _family(kind):
            raise pa.ArrowTypeError(f"they are of type {found.type}")
        found = found.cast(kind)
    except _UNFIT as error:
        raise RefusedError(f"{what} is of type {kind}, its values do not fit: {error}") from None
    if n is not None and len(found) != n:
        raise RefusedError(
            f"{what} has {len(found)} values for {n} keys; pass one for each key of the call"
        )
    return found


def times_for(at_ms: Any, n: int, rows: Ints) -> Ints:
    """The times of timers for these rows, from a column with a time for each of n keys.

    Raises:
        RefusedError: they are not integer milliseconds.
    """
    found = fitted(at_ms, pa.int64(), n, "the time of a timer")
    times: Ints = found.fill_null(FOREVER_MS).to_numpy()[rows]
    if len(times) and not (times.min() > -FOREVER_MS and times.max() < FOREVER_MS):
        raise RefusedError("the time of a timer is not valid; pass int milliseconds for each key")
    return times


def rows_of(where: Any, n: int) -> Ints:
    """Which of n keys a mask selects; None selects all.

    Raises:
        RefusedError: it does not contain a boolean per key.
    """
    if where is None:
        return np.arange(n)
    mask = fitted(where, pa.bool_(), n, "where")
    return np.flatnonzero(pc.fill_null(mask, fill_value=False).to_numpy(zero_copy_only=False))


def output_batches(found: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """What a call returned or yielded, in the columns of the operator's output.

    Raises:
        RefusedError: the columns do not fit.
    """
    if found is None:
        return
    if not isinstance(found, (Mapping, pa.Table, pa.RecordBatch)):
        if not isinstance(found, Iterable) or isinstance(found, (str, bytes)):
            raise RefusedError(f"the output is {type(found).__name__}; return columns by name")
        for each in found:
            yield from output_batches(each, schema)
        return
    names = list(found) if isinstance(found, Mapping) else found.schema.names
    if set(names) != set(schema.names) or len(names) != len(schema):
        raise RefusedError(
            f"the output has columns {', '.join(map(str, names))}; output names "
            f"{', '.join(schema.names)}"
        )
    columns = [
        fitted(found[field.name], field.type, None, f"output column {field.name}")
        for field in schema
    ]
    lengths = {name: len(column) for name, column in zip(schema.names, columns, strict=True)}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise RefusedError(f"the output columns differ in length: {told} values")
    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _has_type(values: Any) -> bool:
    """Whether a column's type is known: that of numpy, or of Python's booleans."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise ValueError(f"an array of {values.ndim} dimensions is not a column")
        return bool(values.dtype != object)
    return any(isinstance(each, (bool, np.bool_)) for each in values)


def _family(kind: pa.DataType) -> Any:
    """A value that is equal for types that may be cast to each other; times cannot become
    numbers.
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    for name, tests in _FAMILIES.items():
        if any(test(kind) for test in tests):
            return name
    return kind.id

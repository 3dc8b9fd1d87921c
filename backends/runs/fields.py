"""Columns of accumulators and keys: gathering, joining and conversion to Arrow.

A field is a numpy array if a value is always present (int64, float64), otherwise an Arrow array.
The same three functions handle both, so callers need not distinguish them.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Field: TypeAlias = npt.NDArray[Any] | pa.Array
Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def take(field: Field, rows: Rows) -> Field:
    """The field at these row positions."""
    return field[rows] if isinstance(field, np.ndarray) else field.take(pa.array(rows))


def join(parts: Sequence[Field]) -> Field:
    """The fields, concatenated."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return pa.concat_arrays(parts)


def slice_field(field: Field, begin: int, stop: int) -> Field:
    """The rows begin..stop, without a copy."""
    return field[begin:stop] if isinstance(field, np.ndarray) else field.slice(begin, stop - begin)


def to_arrow(field: Field) -> pa.Array:
    """The field as an Arrow array; numpy arrays are not copied."""
    return pa.array(field) if isinstance(field, np.ndarray) else field


def to_int64(array: pa.Array) -> npt.NDArray[np.int64]:
    """Values of an integer, boolean, date or timestamp array as int64, nulls as 0."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    width = array.type.bit_width
    plain = array.view({8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[width])
    if plain.null_count:
        plain = plain.fill_null(0)
    values: npt.NDArray[np.int64] = plain.to_numpy().astype(np.int64, copy=False)
    return values


def is_valid(array: pa.Array) -> Flags:
    """True where the array has a value."""
    if not array.null_count:
        return np.ones(len(array), dtype=bool)
    present: Flags = array.is_valid().to_numpy(zero_copy_only=False)
    return present

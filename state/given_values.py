"""Values of a batch as they are given, in array steps where their types allow it."""

from collections.abc import Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_PLAIN: Final = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_float64, float),
    (pa.types.is_string, str),
    (pa.types.is_binary, bytes),
)
"""Python's types that codecs return for Arrow types."""


def are_normal(kind: pa.DataType, values: Sequence[Any]) -> bool:
    """Whether a codec would return all of these values as they are, in a few steps for all.

    False if the answer needs a look at each value.
    """
    there = [value for value in values if value is not None]
    types = set(map(type, there))
    if pa.types.is_struct(kind):
        return (
            types <= {tuple}
            and set(map(len, there)) <= {kind.num_fields}
            and all(
                are_normal(field.type, list(map(itemgetter(at), there)))
                for at, field in enumerate(kind)
            )
        )
    if not types <= {plain for of, plain in _PLAIN if of(kind)}:
        return False
    bound = 1 << kind.bit_width - 1 if pa.types.is_integer(kind) else 0
    return not bound or -bound <= min(there, default=0) <= max(there, default=0) < bound


def objects_of(array: pa.Array) -> list[Any]:
    """The values of an Arrow array as codecs return them: structs are tuples."""
    if pa.types.is_struct(array.type):
        fields = [objects_of(field) for field in array.flatten()]
        rows = zip(*fields, strict=True) if fields else [()] * len(array)
        there = array.is_valid().to_pylist()
        return [row if each else None for row, each in zip(rows, there, strict=True)]
    if _is_list(array.type) and pa.types.is_nested(array.type.value_type):
        items = iter(objects_of(array.flatten()))
        sizes = pc.list_value_length(array).to_pylist()
        return [None if size is None else list(islice(items, size)) for size in sizes]
    found: list[Any] = array.to_pylist()
    return found


def _is_list(kind: pa.DataType) -> bool:
    of = pa.types
    return bool(of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind))

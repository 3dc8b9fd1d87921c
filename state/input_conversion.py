"""Converts keys and values of a batch to the declared type, or refuses them.

Python objects must be of the types that a codec accepts. Arrow and numpy arrays may have another
width or encoding, such as int32 for int64, or a dictionary of strings for strings.
"""

from collections.abc import Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.state.errors import StateTypeError

_PLAIN: Final = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_string, str),
    (pa.types.is_binary, bytes),
)
"""The Python types that codecs return for Arrow types."""


def array_or_list(given: Any) -> pa.Array | list[Any]:
    """Keys or values as one Arrow array if an array was passed, otherwise as a list."""
    if isinstance(given, np.ndarray) and given.dtype.kind in "biufUS":
        try:
            return pa.array(given)
        except pa.ArrowException:  # another byte order, or several dimensions
            return list(given)
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    if not isinstance(given, pa.Array):
        return listed(given)
    return given.dictionary_decode() if pa.types.is_dictionary(given.type) else given


def listed(given: Any, of: str = "a batch") -> list[Any]:
    """Several objects that a caller passed, as a list.

    Raises:
        StateTypeError: it is a single object; a string counts as one.
    """
    if not isinstance(given, str | bytes):
        try:
            return list(iter(given))
        except TypeError:
            pass
    raise StateTypeError(f"{given!r} is not {of}: pass a list or an array")


def in_type(kind: pa.DataType, given: pa.Array | list[Any]) -> pa.Array | list[Any]:
    """An Arrow array of the declared type, or objects that the codec must check one by one.

    Raises:
        StateTypeError: an Arrow array has an incompatible type.
    """
    if isinstance(given, pa.Array):
        return _cast(kind, given)
    # Arrow would truncate fractions to integers, and decode bytes to strings.
    plain = {type(None), *_plain(kind)}
    if float in plain:
        plain.add(int)
    if not set(map(type, given)) <= plain:
        return given
    try:
        array = pa.array(given, pa.float64() if float in plain else kind)
    except (pa.ArrowException, ValueError, OverflowError):
        # The codec accepts halves of surrogate pairs, and reports other errors.
        return given
    return _cast(kind, array)


def are_normal(kind: pa.DataType, values: Sequence[Any]) -> bool:
    """Whether a codec would return all of these values unchanged, by a few array operations. False
    if each value must be checked.
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
    if pa.types.is_float32(kind) or not types <= _plain(kind):
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


def _plain(kind: pa.DataType) -> set[type]:
    return {plain for of, plain in _PLAIN if of(kind)}


def _cast(kind: pa.DataType, array: pa.Array) -> pa.Array | list[Any]:
    stored = array.type
    if stored == kind:
        return array
    if not _is_alike(stored, kind):
        raise StateTypeError(
            f"an array of {stored} was given where {kind} is declared: pass keys and values of the "
            "declared type"
        )
    if pa.types.is_nested(kind) or not _casts_as_codecs_do(stored, kind):
        return objects_of(array)
    try:
        found = array.cast(kind)
    except pa.ArrowInvalid:
        return objects_of(array)
    if pa.types.is_float32(kind) and pc.any(pc.is_inf(found)).as_py():
        return objects_of(array)  # too large, unless it is infinite
    return found


def _casts_as_codecs_do(stored: pa.DataType, kind: pa.DataType) -> bool:
    if pa.types.is_boolean(stored) or pa.types.is_boolean(kind):
        return False
    return not (pa.types.is_floating(stored) and pa.types.is_integer(kind))


def _is_alike(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of a type are accepted for the other type."""
    if pa.types.is_dictionary(stored):
        return _is_alike(stored.value_type, kind)
    if pa.types.is_null(stored):
        return True
    if pa.types.is_struct(kind):
        return (
            pa.types.is_struct(stored)
            and [field.name for field in stored] == [field.name for field in kind]
            and all(_is_alike(*pair) for pair in zip(_types(stored), _types(kind), strict=True))
        )
    if _is_list(kind):
        return _is_list(stored) and _is_alike(stored.value_type, kind.value_type)
    return any(of(stored) and of(kind) for of in (_is_text, _is_bytes, _is_number))


def _types(kind: pa.StructType) -> list[pa.DataType]:
    return [field.type for field in kind]


def _is_list(kind: pa.DataType) -> bool:
    of = pa.types
    return bool(of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    of = pa.types
    return bool(of.is_string(kind) or of.is_large_string(kind) or of.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    of = pa.types
    plain = of.is_binary(kind) or of.is_large_binary(kind)
    return bool(plain or of.is_fixed_size_binary(kind) or of.is_binary_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    of = pa.types
    return bool(of.is_integer(kind) or of.is_floating(kind) or of.is_boolean(kind))

"""Lists as the bytes of their elements, in binary columns; for strings, a column of lengths comes
first.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, is_valid, to_arrow
from idlestate.backends.runs.python_values import python_values

Ints = npt.NDArray[np.int64]


def packed_types(kind: pa.DataType | None) -> list[pa.DataType]:
    """The types of the columns of lists of a type."""
    return [pa.binary(), pa.binary()] if _is_text(kind) else [pa.binary()]


def packed(lists: pa.ListArray) -> list[Field]:
    """Lists as the bytes of their elements; for strings, the lengths come first."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    values = lists.values
    if values.null_count:
        raise ValueError("an element is None")
    missing = None if not lists.null_count else lists.is_null().to_numpy(zero_copy_only=False)
    if not _is_text(values.type):
        return [_bytes(offsets, _plain(values), missing)]
    texts = np.frombuffer(values.buffers()[1] or b"\0" * 4, dtype=np.int32)
    texts = texts[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", dtype=np.uint8)
    lengths = _bytes(offsets, np.diff(texts), missing)
    return [lengths, _bytes(texts[offsets].astype(np.int64), data, missing)]


def _bytes(offsets: Any, items: Any, missing: Any) -> pa.BinaryArray:
    """The bytes of items between offsets, null where they are missing."""
    places = pa.py_buffer((offsets * items.dtype.itemsize).astype(np.int32))
    data = pa.py_buffer(np.ascontiguousarray(items))
    valid = None
    if missing is not None:
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [valid, places, data])


def _plain(values: pa.Array) -> Any:
    """Fixed-width values as a numpy array; decimals as bytes."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    width = values.type.bit_width // 8
    dtype = np.dtype(f"<i{width}" if width <= 8 else f"V{width}")
    found = np.frombuffer(values.buffers()[1] or b"", dtype=dtype)
    return found[values.offset : values.offset + len(values)]


def unpacked(parts: Iterator[Field], kind: pa.DataType | None) -> list[Any]:
    """Packed lists as lists; None where there is no list."""
    data, places, there = _contents(next(parts))
    if _is_text(kind):
        lengths = np.frombuffer(data, dtype=np.int32)
        data, _, _ = _contents(next(parts))
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
        values, bounds = pa.Array.from_buffers(kind, len(lengths), buffers), places // 4
    elif kind is not None and pa.types.is_boolean(kind):
        values, bounds = pa.array(data.astype(bool)), places
    else:
        assert kind is not None
        width = kind.bit_width // 8
        buffers = [None, pa.py_buffer(data)]
        values, bounds = pa.Array.from_buffers(kind, len(data) // width, buffers), places // width
    found = python_values(values)
    return [
        found[begin:end] if is_there else None
        for is_there, (begin, end) in zip(there, pairwise(bounds.tolist()), strict=True)
    ]


def packed_int64(field: Field) -> tuple[Ints, Ints, Ints]:
    """The numbers in a column of packed lists, where each list begins, and the row of each list;
    rows without numbers are omitted.
    """
    array = to_arrow(field)
    # A null list may have bytes; once removed, the bytes of the other lists are contiguous.
    data, places, _ = _contents(array.drop_null())
    has_some = np.diff(places) > 0
    rows = np.flatnonzero(is_valid(array))[has_some]
    return np.frombuffer(data, dtype="<i8"), places[:-1][has_some] // 8, rows


def put_extremes(of: np.ufunc, stamps: Field, found: Ints) -> None:
    """Write the highest or lowest stamp of each packed list that has one."""
    stamps_ms, begins, rows = packed_int64(stamps)
    if len(rows):
        found[rows] = of.reduceat(stamps_ms, begins)


def _contents(field: Field) -> tuple[Any, Any, list[bool]]:
    """All bytes of a binary column, where each value begins and ends, and which are not null."""
    assert isinstance(field, pa.Array)
    places = np.frombuffer(field.buffers()[1], dtype=np.int32)
    places = places[field.offset : field.offset + len(field) + 1].astype(np.int64)
    data = np.frombuffer(field.buffers()[2] or b"", dtype=np.uint8)[places[0] : places[-1]]
    return data, places - places[0], field.is_valid().to_pylist()


def _is_text(kind: pa.DataType | None) -> bool:
    return kind is not None and bool(pa.types.is_string(kind) or pa.types.is_binary(kind))

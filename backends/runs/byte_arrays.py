"""Operations on arrays of byte strings, by the bytes and lengths of all strings."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def fixed_width(items: npt.NDArray[Any]) -> pa.BinaryArray:
    """Fixed-width items as their bytes."""
    offsets = np.arange(len(items) + 1, dtype=np.int32) * np.int32(items.dtype.itemsize)
    data = pa.py_buffer(np.ascontiguousarray(items).tobytes())
    return pa.Array.from_buffers(pa.binary(), len(items), [None, pa.py_buffer(offsets), data])


def layout_of(array: pa.BinaryArray) -> tuple[npt.NDArray[np.uint8], Positions, Positions]:
    """The bytes of an array, padded by eight, and the start and length of each item.

    The padding allows every item to be read in words of eight bytes.
    """
    _, at, data = array.buffers()
    ends = np.frombuffer(at, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    first, last = (int(ends[0]), int(ends[-1])) if len(array) else (0, 0)
    padded = np.zeros(last - first + 8, dtype=np.uint8)
    if last > first:
        padded[: last - first] = np.frombuffer(data, dtype=np.uint8)[first:last]
    starts = ends[:-1].astype(np.int64) - first
    return padded, starts, np.diff(ends).astype(np.int64)


def slices(data: npt.NDArray[np.uint8], starts: Positions, sizes: Positions) -> pa.BinaryArray:
    """The bytes at these positions with these lengths."""
    ends = np.concatenate(([0], np.cumsum(sizes)))
    at = np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])
    offsets = pa.py_buffer(ends.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, offsets, pa.py_buffer(data[at])])


def spread(starts: Positions, sizes: Positions) -> Positions:
    """Consecutive numbers from each start, as many as its length."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def order_of(array: pa.BinaryArray) -> pa.Array:
    """The positions of the items in the order of their bytes; equal items keep their order."""
    return pc.array_sort_indices(array)

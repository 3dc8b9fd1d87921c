"""Lists of items per row, stored as binary columns so that they can be handled like other columns.

Items have parts, such as a value and a time. A part is one binary column: the cell of a row
contains the bytes of its items one after the other. So the column's buffer contains the items of
all rows, and nothing is unpacked row by row. Strings and binaries have two columns, lengths (int32)
and bytes. A nullable part has an additional column with a byte per item, 1 where there is a value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, is_valid, slice_field

Ints = npt.NDArray[np.int64]
CELLS = pa.large_binary()
"""The type of the columns."""


@dataclass(frozen=True)
class ItemPart:
    """A part of each item, with a fixed-width, string or binary type."""

    kind: pa.DataType
    may_be_null: bool = False

    @property
    def is_text(self) -> bool:
        """Whether its values have different lengths."""
        return bool(pa.types.is_string(self.kind) or pa.types.is_binary(self.kind))

    @property
    def item_bytes(self) -> int:
        """The number of bytes per item in the first column."""
        return 4 if self.is_text else max(8, self.kind.bit_width) // 8

    @property
    def columns(self) -> int:
        """The number of its columns."""
        return 1 + self.is_text + self.may_be_null

    def pack(self, items: pa.Array, ends: Ints) -> list[pa.Array]:
        """The columns of rows; `ends` says after how many items each row ends."""
        flags = [_cells(is_valid(items).astype(np.uint8), ends)] if self.may_be_null else []
        if not self.is_text:
            return [_cells(_fixed(items), ends), *flags]
        items = items.cast(pa.large_binary())
        bounds = np.frombuffer(items.buffers()[1] or bytes(8), dtype=np.int64)
        bounds = bounds[items.offset : items.offset + len(items) + 1]
        data = (items.buffers()[2] or pa.py_buffer(b"")).slice(int(bounds[0]))
        lengths = np.diff(bounds).astype(np.int32)
        places = (bounds - bounds[0])[_with_first(ends)]
        return [_cells(lengths, ends), _of_buffers(places, data), *flags]

    def unpack(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The items of all rows; strings and binaries as their large types."""
        data = [_data_of(column) for column in columns]
        valid = _bits(data[-1]) if self.may_be_null else None
        count = data[0].size // self.item_bytes
        if self.is_text:
            lengths = np.frombuffer(data[0], dtype=np.int32)
            bounds = _with_first(np.cumsum(lengths, dtype=np.int64))
            large = pa.large_string() if pa.types.is_string(self.kind) else pa.large_binary()
            buffers = [valid, pa.py_buffer(bounds), data[1]]
            return pa.Array.from_buffers(large, count, buffers)
        values = _bits(data[0]) if pa.types.is_boolean(self.kind) else data[0]
        return pa.Array.from_buffers(self.kind, count, [valid, values])


@dataclass(frozen=True)
class PackedLists:
    """Lists of items of these parts."""

    parts: tuple[ItemPart, ...]

    @property
    def field_types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns."""
        return (CELLS,) * sum(part.columns for part in self.parts)

    def pack(self, items: Sequence[pa.Array], counts: npt.NDArray[Any]) -> list[Field]:
        """The columns of rows with this many items each, from the parts of all items."""
        ends = np.cumsum(counts, dtype=np.int64)
        pairs = zip(self.parts, items, strict=True)
        return [column for part, values in pairs for column in part.pack(values, ends)]

    def unpack(self, columns: Sequence[Field]) -> tuple[list[pa.Array], Ints]:
        """The parts of all items, and the number of items in each row."""
        items, at = [], 0
        for part in self.parts:
            items.append(part.unpack(columns[at : at + part.columns]))
            at += part.columns
        return items, np.diff(_bounds_of(columns[0])) // self.parts[0].item_bytes

    def unpack_segments(
        self, columns: Sequence[Field], starts: Ints
    ) -> tuple[list[pa.Array], Ints]:
        """The parts of all items of segments of rows, and the segment of each.

        Args:
            columns: columns of n rows.
            starts: the first row of each segment; rows before starts[0] belong to none.
        """
        items, counts = self.unpack(
            [slice_field(column, int(starts[0]), len(column)) for column in columns]
        )
        begin = starts - starts[0]
        sizes = np.add.reduceat(counts, begin)
        return items, np.repeat(np.arange(len(starts)), sizes)


def _fixed(items: pa.Array) -> npt.NDArray[Any]:
    """Fixed-width values, each as a row of bytes."""
    if pa.types.is_boolean(items.type):
        items = items.cast(pa.uint8())
    width = items.type.bit_width // 8
    data = np.frombuffer(items.buffers()[1] or b"", dtype=np.dtype((np.void, width)))
    return data[items.offset : items.offset + len(items)]


def _cells(items: npt.NDArray[Any], ends: Ints) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(items).view(np.uint8))
    return _of_buffers(_with_first(ends) * items.dtype.itemsize, data)


def _of_buffers(places: Ints, data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(CELLS, len(places) - 1, [None, pa.py_buffer(places), data])


def _bounds_of(column: pa.Array) -> Ints:
    places = np.frombuffer(column.buffers()[1] or bytes(8), dtype=np.int64)
    return places[column.offset : column.offset + len(column) + 1]


def _data_of(column: pa.Array) -> pa.Buffer:
    bounds = _bounds_of(column)
    data = column.buffers()[2] or pa.py_buffer(b"")
    return data.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))


def _bits(data: pa.Buffer) -> pa.Buffer:
    flags = np.frombuffer(data, dtype=np.uint8)
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _with_first(ends: Ints) -> Ints:
    return np.concatenate(([0], ends))

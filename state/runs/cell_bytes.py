"""Cells of a row: the data of one state for one key and namespace, as bytes; null for nothing.

    value, reducing, aggregating    a row value, see `state/byte_layout.py`
    list                            a row value: the items one after another
    map                             the number of entries (4 bytes), the lengths of their user keys
                                    and of their row values (4 bytes each), user keys, row values

Numbers are little-endian. Many cells are encoded and decoded at once, without an object per cell if
the values have a fixed width.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import (
    Flags,
    Positions,
    fixed_width,
    layout_of,
    slices,
    spread,
)
from idlestate.state.batch_values import Cells, Lists, dtype_of
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.descriptors import StateKind

_LENGTH = np.dtype("<u4")


@dataclass(frozen=True, slots=True)
class Items:
    """The data of many keys: one value each, or lists or maps.

    Attributes:
        sizes: the number of items of each key; one for single values.
        cells: all items, in the order of the keys.
        user_keys: the encoded keys of entries of maps; else None.
    """

    sizes: Positions
    cells: Cells
    user_keys: pa.BinaryArray | None = None

    @property
    def owners(self) -> Positions:
        """The position of each item's key."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def where(self, flags: Flags) -> "Items":
        """The flagged items; keys may be left without items."""
        sizes = np.bincount(self.owners[flags], minlength=len(self.sizes))
        user_keys = self.user_keys and self.user_keys.filter(pa.array(flags))
        return Items(sizes, self.cells.where(flags), user_keys)


def encode(layout: ValueLayout, items: Items, there: Flags) -> pa.BinaryArray:
    """The cell of each key, null if there is nothing; items belong to keys that exist."""
    sizes = np.zeros(len(there), dtype=np.int64)
    sizes[there] = items.sizes
    if layout.kind is StateKind.LIST:
        found = _joined(_list_items(layout, items.cells), sizes)
    elif layout.kind is StateKind.MAP:
        assert items.user_keys is not None
        values = _values(layout, items.cells)
        head = _map_heads(sizes, [_lengths(items.user_keys), _lengths(values)])
        parts = (head, _joined(items.user_keys, sizes), _joined(values, sizes))
        found = pc.binary_join_element_wise(*parts, b"")
    else:
        found = _joined(_values(layout, items.cells), sizes)
    return found if there.all() else pc.if_else(pa.array(there), found, None)


def decode(layout: ValueLayout, cells: pa.BinaryArray) -> Items:
    """The content of cells, none of which is null."""
    if layout.kind is StateKind.LIST:
        lists = _lists(layout, cells)
        return Items(lists.sizes, lists.items)
    if layout.kind is StateKind.MAP:
        return _maps(layout, cells)
    return Items(np.ones(len(cells), dtype=np.int64), _decoded(layout, cells))


def split_map(cell: pa.BinaryScalar) -> list[tuple[bytes, bytes]]:
    """The user keys and row values of one map, in the order of their bytes."""
    data = cell.as_buffer().to_pybytes()
    (count,) = np.frombuffer(data, dtype=_LENGTH, count=1).tolist()
    lengths = np.frombuffer(data, dtype=_LENGTH, offset=4, count=2 * count)
    ends = (np.cumsum(lengths, dtype=np.int64) + 4 + 8 * count).tolist()
    begins = [4 + 8 * count, *ends][:-1]
    parts = [data[begin:end] for begin, end in zip(begins, ends, strict=True)]
    return sorted(zip(parts[:count], parts[count:], strict=True))


def _values(layout: ValueLayout, cells: Cells) -> pa.BinaryArray:
    """The row value of each cell, none of which is missing."""
    dtype = cells.values.dtype
    if dtype.hasobject or not cells.has.all():
        return pa.array(map(layout.encode, cells.stored()), pa.binary())
    rows = np.empty(len(cells), dtype=_row_dtype(layout))
    rows["flag"], rows["value"] = 1, cells.values
    if layout.stamped:
        rows["stamp"] = cells.stamps
    return fixed_width(rows)


def _decoded(layout: ValueLayout, values: pa.BinaryArray) -> Cells:
    """The content of row values."""
    dtype = dtype_of(layout.value.kind)
    if not dtype.hasobject:
        data, _, sizes = layout_of(values)
        row = _row_dtype(layout)
        if (sizes == row.itemsize).all():
            rows = np.frombuffer(data, dtype=row, count=len(values))
            has = rows["flag"] == 1
            stamps = rows["stamp"].astype(np.int64) if layout.stamped else None
            if has.all():
                return Cells(rows["value"].astype(dtype), has, has, stamps)
    return layout.decode_many(values.to_pylist())


def _list_items(layout: ValueLayout, cells: Cells) -> pa.BinaryArray:
    """Each item as encoded in a row value."""
    if cells.values.dtype.hasobject:
        each = [layout.encode_items([item]) for item in cells.stored()]
        return pa.array(each, pa.binary())
    rows = np.empty(len(cells), dtype=_item_dtype(layout))
    rows["flag"], rows["size"], rows["value"] = 1, rows.itemsize - 2, cells.values
    if layout.stamped:
        rows["stamp"] = cells.stamps
    return fixed_width(rows)


def _lists(layout: ValueLayout, cells: pa.BinaryArray) -> Lists:
    kind, there = layout.value.kind, np.ones(len(cells), dtype=np.bool_)
    if not dtype_of(kind).hasobject:
        item = _item_dtype(layout)
        data, _, sizes = layout_of(cells)
        if not (sizes % item.itemsize).any():
            rows = np.frombuffer(data, dtype=item, count=int(sizes.sum()) // item.itemsize)
            if (rows["flag"] == 1).all() and (rows["size"] == item.itemsize - 2).all():
                has = np.ones(len(rows), dtype=np.bool_)
                stamps = rows["stamp"].astype(np.int64) if layout.stamped else None
                values = rows["value"].astype(dtype_of(kind))
                return Lists(there, sizes // item.itemsize, Cells(values, has, has, stamps))
    return Lists.of(
        [layout.decode_items(cell) for cell in cells.to_pylist()], kind, stamped=layout.stamped
    )


def _row_dtype(layout: ValueLayout) -> np.dtype[Any]:
    value = dtype_of(layout.value.kind).newbyteorder(">")
    return np.dtype([("flag", "u1"), *_stamp(layout), ("value", value)])


def _item_dtype(layout: ValueLayout) -> np.dtype[Any]:
    value = dtype_of(layout.value.kind).newbyteorder(">")
    return np.dtype([("flag", "u1"), ("size", "u1"), *_stamp(layout), ("value", value)])


def _stamp(layout: ValueLayout) -> list[tuple[str, str]]:
    return [("stamp", ">i8")] if layout.stamped else []


def _map_heads(sizes: Positions, lengths: list[Positions]) -> pa.BinaryArray:
    """The head of map cells: the number of entries, the lengths of each part."""
    ends = np.concatenate(([0], np.cumsum(1 + 2 * sizes)))
    numbers = np.empty(ends[-1], dtype=_LENGTH)
    numbers[ends[:-1]] = sizes
    for at, each in enumerate(lengths):
        numbers[spread(ends[:-1] + 1 + at * sizes, sizes)] = each
    return _binary(4 * ends, pa.py_buffer(numbers))


def _maps(layout: ValueLayout, cells: pa.BinaryArray) -> Items:
    data, starts, _ = layout_of(cells)
    number = np.ndarray((max(len(data) - 3, 0),), dtype=_LENGTH, buffer=data, strides=(1,))
    sizes = number[starts].astype(np.int64)
    parts, begins = [], starts + 4 + 8 * sizes
    for at in (0, 1):
        # The lengths of a map are four bytes apart.
        place = spread(np.zeros_like(sizes), sizes)
        lengths = number[np.repeat(starts + 4 + 4 * at * sizes, sizes) + 4 * place].astype(np.int64)
        ends = np.concatenate(([0], np.cumsum(lengths)))
        bounds = ends[np.concatenate(([0], np.cumsum(sizes)))]
        parts.append(slices(data, np.repeat(begins - bounds[:-1], sizes) + ends[:-1], lengths))
        begins = begins + np.diff(bounds)
    return Items(sizes, _decoded(layout, parts[1]), parts[0])


def _lengths(array: pa.BinaryArray) -> Positions:
    found: Positions = pc.binary_length(array).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _joined(pieces: pa.BinaryArray, sizes: Positions) -> pa.BinaryArray:
    """Join pieces, which are already adjacent, into groups of these sizes."""
    if not len(pieces):
        return _binary(np.zeros(len(sizes) + 1, dtype=np.int64), pa.py_buffer(b""))
    _, offsets, data = pieces.buffers()
    at = np.frombuffer(offsets, dtype=np.int32)[pieces.offset :]
    return _binary(at[np.concatenate(([0], np.cumsum(sizes)))], data)


def _binary(offsets: npt.NDArray[Any], data: pa.Buffer) -> pa.BinaryArray:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), data]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)

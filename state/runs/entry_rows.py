"""Rows of the second table of a list or map state: one per entry.

The key of a row consists of

    prefix         of the key and namespace, as in the first table
    user key       as in a row of a map (`state/byte_layout.py`); for a list its number, 8 bytes
    length         of the prefix, 4 bytes

The range of its place (`idlestate.backends.runs.entry_places`) is the key group and some bits of
the prefix's hash. The cell in the first table is then a *marker*: 4 bytes with which no other cell
begins, the number of entries and the number of the next element, 8 bytes each. Numbers are
little-endian, except those of elements, which are big-endian.
"""

import struct
from typing import Any, Final, NamedTuple

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
)
from idlestate.backends.runs.entry_places import ENTRY_BITS, places_in, stored_in, upper_bits
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.runs.table_schema import TableSchema
from idlestate.state.runs.working_set import GROUP_BITS, KEYS, column, groups_of

SCHEMA: Final = TableSchema(KEYS, (column("entry"),))

_LENGTH: Final = struct.Struct("<I")
_MARKER: Final = np.dtype([("mark", "<u4"), ("count", "<i8"), ("next", "<i8")])
_MARK: Final = (1 << 32) - 1


class Markers(NamedTuple):
    """The markers among cells: which cells are markers, their counts and their next numbers."""

    marked: Flags
    counts: Positions
    following: Positions


def marker_cells(counts: Positions, following: Positions) -> pa.BinaryArray:
    """The cells of lists or maps whose entries are in the second table."""
    cells = np.empty(len(counts), dtype=_MARKER)
    cells["mark"], cells["count"], cells["next"] = _MARK, counts, following
    return fixed_width(cells)


def markers_in(cells: pa.BinaryArray) -> Markers:
    """The markers among cells of a list or map state."""
    marked = pc.equal(pc.binary_length(cells), _MARKER.itemsize).fill_null(fill_value=False)
    flags: npt.NDArray[np.bool_] = marked.to_numpy(zero_copy_only=False)
    if not flags.any():
        return Markers(flags, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    data, _, _ = layout_of(cells.filter(marked))
    found = data[:-8].view(_MARKER)
    is_mark = found["mark"] == _MARK
    found, flags = found[is_mark], flags.copy()
    flags[flags] = is_mark
    return Markers(flags, found["count"].astype(np.int64), found["next"].astype(np.int64))


def entry_row(prefix: bytes, user_key: bytes) -> bytes:
    """The row of one entry."""
    return prefix + user_key + _LENGTH.pack(len(prefix))


def entry_rows(prefixes: pa.BinaryArray, user_keys: pa.BinaryArray) -> pa.BinaryArray:
    """The row of each entry."""
    lengths = pc.binary_length(prefixes).to_numpy(zero_copy_only=False).astype("<u4")
    return pc.binary_join_element_wise(prefixes, user_keys, fixed_width(lengths), b"")


def parts_of(rows: pa.BinaryArray) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """The prefix and the user key of each row."""
    data, starts, sizes = layout_of(rows)
    number: npt.NDArray[Any] = np.ndarray((len(data) - 3,), "<u4", buffer=data, strides=(1,))
    lengths = number[starts + sizes - 4].astype(np.int64)
    return slices(data, starts, lengths), slices(data, starts + lengths, sizes - 4 - lengths)


def element_keys(numbers: Positions) -> pa.BinaryArray:
    """The user keys of elements of lists."""
    return fixed_width(numbers.astype(">i8"))


def element_numbers(user_keys: pa.BinaryArray) -> Positions:
    """The numbers of elements of lists."""
    data, _, _ = layout_of(user_keys)
    return data[:-8].view(">i8").astype(np.int64)


def places_of(rows: pa.BinaryArray) -> Positions:
    """The places of entries in a run."""
    prefixes, user_keys = parts_of(rows)
    return places_in(range_numbers(prefixes), upper_bits(user_keys, ENTRY_BITS))


def range_numbers(prefixes: pa.BinaryArray) -> Positions:
    """The range of places of each key's entries, as a number; keys may share one."""
    bits = GROUP_BITS - ENTRY_BITS
    found: Positions = groups_of(prefixes) << bits | upper_bits(prefixes, bits)
    return found


def stored_entries(runs: Runs, prefixes: pa.BinaryArray) -> tuple[Positions, Positions, pa.Array]:
    """The rows of runs in the ranges of some keys, including other keys that share a range.

    Returns:
        Positions in the runs, places, and the rows with their cells as a struct.
    """
    at, rows = stored_in(runs, range_numbers(prefixes))
    both = pa.StructArray.from_arrays([rows.keys[0], rows.payload[0]], ["row", "cell"])
    return at, rows.hashes, both

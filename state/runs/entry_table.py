"""The second table of a list or map state: the entries of lists and maps that are large.

Entries are touched one by one, or all entries of a key. Touched entries stay in memory, by number,
until rows are written back.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Flags, Positions, spread
from idlestate.backends.runs.byte_index import ABSENT, ByteIndex, grown
from idlestate.backends.runs.changed_rows import WrittenRows, changed_rows
from idlestate.backends.runs.entry_places import ranges_at
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import Runs
from idlestate.state.batch_values import Cells, Stored
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.descriptors import StateKind
from idlestate.state.heap.stamped_value_columns import StoredColumns
from idlestate.state.runs import cell_bytes
from idlestate.state.runs.all_rows import portions
from idlestate.state.runs.cell_bytes import Items
from idlestate.state.runs.entry_rows import (
    element_numbers,
    parts_of,
    places_of,
    range_numbers,
    stored_entries,
)

_FEW: Final = 4
"""Up to this many keys, ranges are searched in all places; for more, in sorted ones."""


class EntryTable:
    """Numbered entries; some are absent.

    Attributes:
        layout: the layout of one entry's value.
        stored: the runs below.
        index: numbers the rows of entries.
    """

    def __init__(self, layout: ValueLayout, stored: Runs) -> None:
        """The entries of the runs, for a state with this layout."""
        self._is_list = layout.kind is StateKind.LIST
        self.layout = replace(layout, kind=StateKind.VALUE)
        self.reset(stored)

    def reset(self, stored: Runs) -> None:
        """Start with all entries in these runs, and none in memory."""
        self.stored = stored
        self.index = ByteIndex()
        self._columns = StoredColumns(self.layout)
        self._there = np.zeros(0, dtype=np.bool_)
        self._dirty = np.zeros(0, dtype=np.bool_)
        self._at = np.zeros(0, dtype=np.int64)  # the entry's position in the runs
        self._places = np.zeros(0, dtype=np.int64)

    @property
    def total_bytes(self) -> int:
        """Memory of entries."""
        return self.index.total_bytes + self._columns.nbytes

    # -------------------------------------------------------------- bringing entries into memory

    def one(self, row: bytes) -> int:
        """The number of an entry, whether it exists or not."""
        number = self.index.find_one(row, 0)
        return int(self.numbers(pa.array([row], pa.binary()))[0]) if number == ABSENT else number

    def numbers(self, rows: pa.BinaryArray, *, may_be_stored: bool = True) -> Positions:
        """The numbers of entries; those not in memory are looked up together."""
        numbers, new = self.index.add(rows, 0)
        if not len(new):
            return numbers
        rows = self.rows(new)
        places, at = places_of(rows), np.full(len(new), ABSENT)
        cells = pa.array([], pa.binary())
        if may_be_stored and self.stored.runs:
            order = np.argsort(places)
            at[order], found = self.stored.look_up(places[order], [rows.take(pa.array(order))])
            back = np.argsort(order[at[order] != ABSENT])
            cells = found.payload[0].take(pa.array(back))
        self._hold(places, at, cells)
        return numbers

    def scan(self, prefixes: pa.BinaryArray) -> None:
        """Load all entries of keys into memory."""
        if not self.stored.runs:
            return
        at, places, found = stored_entries(self.stored, prefixes)
        new = self.index.find(found.field("row"), 0) == ABSENT
        found = found.filter(pa.array(new))
        self.index.add(found.field("row"), 0)
        self._hold(places[new], at[new], found.field("cell"))

    def _hold(self, places: Positions, at: Positions, cells: pa.BinaryArray) -> None:
        """Store the facts of new numbers: their key, their position in the runs, their value."""
        count = self.index.count
        first = count - len(places)
        self._there, self._dirty = grown(self._there, count), grown(self._dirty, count)
        self._at, self._places = grown(self._at, count), grown(self._places, count)
        self._at[first:count], self._places[first:count] = at, places
        self._there[first:count], self._dirty[first:count] = at != ABSENT, False
        self._set(first + np.flatnonzero(at != ABSENT), cell_bytes.decode(self.layout, cells).cells)

    def _set(self, numbers: Positions, cells: Cells) -> None:
        self._columns.set(numbers, cells.values, cells.has, cells.stamps, cells.there)

    # -------------------------------------------------------------- what is in memory

    def rows(self, numbers: Positions) -> pa.BinaryArray:
        """The rows of entries."""
        return self.index.keys.take(pa.array(numbers)).cast(pa.binary())

    def has(self, row: bytes) -> bool:
        """Whether an entry exists."""
        number = self.one(row)
        return bool(self._there[number])

    def get(self, row: bytes) -> Stored:
        """The value of an entry; None if it does not exist."""
        number = self.one(row)
        return self._columns.one(number) if self._there[number] else None

    def at(self, numbers: Positions) -> Cells:
        """The values of entries; missing ones have none."""
        there = self._there[numbers]
        return self._columns.at(np.where(there, numbers, ABSENT), there)

    def of_keys(self, prefixes: pa.BinaryArray) -> tuple[Positions, Positions]:
        """The number of entries of each key, and their numbers; those of a list in order."""
        self.scan(prefixes)
        mine, wanted = ranges_at(self._places[: self.index.count]), range_numbers(prefixes)
        if len(prefixes) <= _FEW:
            each = [np.flatnonzero(mine == number) for number in wanted.tolist()]
            sizes = np.array(list(map(len, each)), dtype=np.int64)
            numbers = np.concatenate([np.zeros(0, dtype=np.int64), *each])
        else:
            order = np.argsort(mine, kind="stable")
            mine = mine[order]
            begins = np.searchsorted(mine, wanted)
            sizes = np.searchsorted(mine, wanted, side="right") - begins
            numbers = order[spread(begins, sizes)]
        owners = np.repeat(np.arange(len(prefixes)), sizes)
        there = self._there[numbers]
        owners, numbers = owners[there], numbers[there]
        names, user_keys = parts_of(self.rows(numbers))
        same = pc.equal(names, prefixes.take(pa.array(owners))).to_numpy(zero_copy_only=False)
        if not same.all():  # different keys share a range
            owners, numbers = owners[same], numbers[same]
            user_keys = user_keys.filter(pa.array(same))
        if self._is_list:
            numbers = numbers[np.lexsort((element_numbers(user_keys), owners))]
        return np.bincount(owners, minlength=len(prefixes)), numbers

    # -------------------------------------------------------------- changing entries

    def put(self, rows: pa.BinaryArray, cells: Cells, *, may_be_stored: bool = True) -> Flags:
        """Set entries (the last of a repeated one counts); flags new ones, once each."""
        numbers = self.numbers(rows, may_be_stored=may_be_stored)
        new = _first_of(numbers, ~self._there[numbers])
        self._set(numbers, cells)
        self._there[numbers] = self._dirty[numbers] = True
        return new

    def remove(self, numbers: Positions) -> Flags:
        """Remove entries; flags those that existed, once each."""
        gone = _first_of(numbers, self._there[numbers])
        self._there[numbers[gone]] = False
        self._dirty[numbers[gone]] = True
        self._columns.let_go(numbers[gone])
        return gone

    def below(self, rows: Rows) -> tuple[pa.BinaryArray, Cells]:
        """The rows and values of entries of the runs that are not in memory."""
        mine = pa.array(self.index.find(rows.keys[0], 0) == ABSENT)
        cells = rows.payload[0]
        assert isinstance(cells, pa.Array)
        return rows.keys[0].filter(mine), cell_bytes.decode(self.layout, cells.filter(mine)).cells

    def stamps(self) -> Iterator[Positions]:
        """The timestamps of all entries, in portions."""
        for rows in portions(self.stored):
            yield self.below(rows)[1].stamps_there
        yield self.at(self.in_memory(0, self.index.count)).stamps_there

    def in_memory(self, first: int, end: int) -> Positions:
        """Those of these entries that exist."""
        found: Positions = first + np.flatnonzero(self._there[first:end])
        return found

    def changed(self) -> WrittenRows | None:
        """The changes to write; None if there are none."""
        numbers = np.flatnonzero(self._dirty[: self.index.count])
        there = self._there[numbers]
        cells = self.at(numbers[there])
        ones = np.ones(len(cells), dtype=np.int64)
        column = cell_bytes.encode(self.layout, Items(ones, cells), there)
        at, places = self._at[numbers], self._places[numbers]
        return changed_rows(self.stored, at, ~there, self.rows(numbers), [column], places)


def _first_of(numbers: Positions, flags: Flags) -> Flags:
    """The flags without those of repeated numbers."""
    found = np.zeros(len(numbers), dtype=np.bool_)
    rows = np.flatnonzero(flags)
    found[rows[np.unique(numbers[rows], return_index=True)[1]]] = True
    return found

"""Lists and maps on runs: small ones in a cell of their key's row, large ones in a second table.

A list or map becomes *large* if its cell exceeds `CELL_BYTES` when rows are written back. Then its
entries move into the second table, and a call for one entry touches no others. It stays large until
it is cleared or its last entry is removed. The heap table contains nothing of a large map; of a
large list, it contains the elements that were appended since, which are not entries yet.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Flags, Positions, spread
from idlestate.backends.runs.byte_index import distinct, grown
from idlestate.backends.runs.table_runs import Runs
from idlestate.state.batch_values import Cells
from idlestate.state.descriptors import StateKind
from idlestate.state.key_batch import KeyBatch
from idlestate.state.row_keys import KeyLayout
from idlestate.state.runs import cell_bytes
from idlestate.state.runs.cell_bytes import Items
from idlestate.state.runs.entry_rows import element_keys, entry_rows, marker_cells, markers_in
from idlestate.state.runs.entry_table import EntryTable
from idlestate.state.runs.opened_rows import load, read
from idlestate.state.runs.runs_table import RunsTable
from idlestate.state.runs.sweep_of_lists_and_maps import EntriesWalk
from idlestate.state.runs.working_set import BYTES, WorkingSet
from idlestate.state.state_schema import StateSchema
from idlestate.state.table import Walk

CELL_BYTES: Final = 1 << 12
"""The maximum size of a cell of a list or map.

Measured on maps of 28-byte entries, in rows and in the second table: with 5.6 KB per map, the
second table makes a put 20 times as fast and reading a whole map 2.3 times as slow; with 1.7 KB,
6 times as fast and 5 times as slow.
"""


class RunsItemsTable(RunsTable):
    """One list or map state.

    Attributes:
        entries: the second table.
        any_large: whether a large list or map is in memory.
    """

    entries: EntryTable

    def __init__(
        self, keys: KeyLayout, schema: StateSchema, rows: WorkingSet, entries: Runs
    ) -> None:
        """The table of a column, with the runs of its second table."""
        self.entries = EntryTable(schema.layout, entries)
        super().__init__(keys, schema, rows)

    def reset(self) -> None:
        """Start with an empty working set."""
        super().reset()
        self.any_large = False
        self._looked_at = 0  # for rows with lower numbers, it is known whether they are large
        self._large = np.zeros(0, dtype=np.bool_)
        self._counts = np.zeros(0, dtype=np.int64)
        self._following = np.zeros(0, dtype=np.int64)

    def _make_room(self) -> None:
        super()._make_room()
        first, count = self._looked_at, self.working.index.count
        if first == count:
            return
        self._large = grown(self._large, count)
        self._counts, self._following = grown(self._counts, count), grown(self._following, count)
        self._large[first:count] = False
        for cells in self.working.cells_since(self.family, first):
            marked, counts, following = markers_in(cells)
            if len(counts):
                self._make_large(first + np.flatnonzero(marked), counts, following)
            first += len(cells)
        self._looked_at = count

    def _make_large(self, numbers: Positions, counts: Positions, following: Positions) -> None:
        self._large[numbers] = self._opened[numbers] = self.any_large = True
        self._tailed[numbers] = False
        self._counts[numbers], self._following[numbers] = counts, following

    # -------------------------------------------------------------- rows of calls

    def is_large(self, key: Any, namespace: Any) -> bool:
        """Whether the list or map of a key that was just touched is large."""
        return self.any_large and bool(self._large[self.working.one(key, namespace).number])

    def large_in(self, prefixes: KeyBatch) -> Flags:
        """Whether the lists or maps of keys that were just touched are large."""
        if not self.any_large:
            return np.zeros(len(prefixes), dtype=np.bool_)
        found: Flags = self._large[self.working.index.find(prefixes.encoded, 0)]
        return found

    def to_change(self, key: Any, namespace: Any) -> bytes:
        """See `RunsTable`; the row of a large map changes only with its number of entries."""
        prefix = self.to_read(key, namespace)
        number = self.working.one(key, namespace).number
        if not self._large[number]:
            self.working.dirty[number] = True
        return prefix

    def many_to_change(self, keys: KeyBatch, namespace: Any) -> KeyBatch:
        """`to_change` of many keys."""
        prefixes, numbers = self.working.many(keys, namespace)
        self._open(numbers)
        self.working.dirty[numbers[~self._large[numbers]]] = True
        return prefixes

    def to_replace(self, key: Any, namespace: Any) -> bytes:
        """See `RunsTable`; the entries of a large one are removed."""
        prefix = super().to_replace(key, namespace)
        if self.is_large(key, namespace):
            self._remove_all(np.array([self.working.one(key, namespace).number]))
        return prefix

    def many_to_replace(self, keys: KeyBatch, namespace: Any) -> KeyBatch:
        """`to_replace` of many keys."""
        prefixes = super().many_to_replace(keys, namespace)
        if self.any_large:
            numbers = distinct(self.working.index.find(prefixes.encoded, 0))
            self._remove_all(numbers[self._large[numbers]])
        return prefixes

    def _remove_all(self, numbers: Positions) -> None:
        if len(numbers):
            _, entries = self.entries.of_keys(self.working.prefixes(numbers))
            self.entries.remove(entries)
            self._large[numbers] = False

    # -------------------------------------------------------------- large ones

    def entries_of(self, prefixes: pa.BinaryArray) -> tuple[Positions, Positions]:
        """The number of entries of large ones that were just touched, and the entries' numbers."""
        if self.layout.kind is StateKind.LIST:
            self._take_tails(distinct(self.working.index.find(prefixes, 0)))
        return self.entries.of_keys(prefixes)

    def count(self, prefix: bytes) -> int:
        """The number of entries of a large one that was just touched."""
        return int(self._counts[self.working.index.find_one(prefix, 0)])

    def put_entries(
        self, prefixes: pa.BinaryArray, user_keys: pa.BinaryArray, cells: Cells
    ) -> None:
        """Set an entry in each of some large maps that were just touched."""
        owners = self.working.index.find(prefixes, 0)
        self._add(owners, self.entries.put(entry_rows(prefixes, user_keys), cells), 1)

    def remove_entries(
        self, prefixes: pa.BinaryArray, user_keys: pa.BinaryArray, *, keep_empty: bool
    ) -> None:
        """Remove an entry of each of some large maps that were just touched, if it exists.

        Removing the last one removes the map, unless empty maps are kept.
        """
        owners = self.working.index.find(prefixes, 0)
        numbers = self.entries.numbers(entry_rows(prefixes, user_keys))
        self._add(owners, self.entries.remove(numbers), -1)
        if not keep_empty:
            self._end_empty(distinct(owners))

    def count_out(self, prefixes: pa.BinaryArray) -> None:
        """Note that one entry of each of these keys was removed; a key's last one removes all."""
        numbers = self.working.kept_numbers(prefixes)  # a walk may still visit rows
        self._make_room()
        self._add(numbers, np.ones(len(numbers), dtype=np.bool_), -1)
        self._end_empty(distinct(numbers))

    def _add(self, owners: Positions, flags: Flags, number: int) -> None:
        owners = owners[flags]
        np.add.at(self._counts, owners, np.int64(number))
        self.working.dirty[owners] = True

    def _end_empty(self, owners: Positions) -> None:
        ended = owners[self._counts[owners] == 0]
        self._large[ended] = False
        self.working.dirty[ended] = True

    def _take_tails(self, numbers: Positions) -> None:
        """Turn elements that were appended to large lists into entries."""
        keys = KeyBatch(BYTES, self.working.prefixes(numbers))
        there, items = read(self.front, keys)
        if not there.any():
            return
        keys, numbers = keys.where(there), numbers[there]
        user_keys = element_keys(spread(self._following[numbers], items.sizes))
        prefixes = keys.take(items.owners).encoded
        self.entries.put(entry_rows(prefixes, user_keys), items.cells, may_be_stored=False)
        self._counts[numbers] += items.sizes
        self._following[numbers] += items.sizes
        self.working.dirty[numbers] = True
        self.front.clear_many(keys, None)

    def _take_in(self, keys: KeyBatch, numbers: Positions, items: Items) -> None:
        large = self._large[numbers]
        if self.layout.kind is StateKind.LIST or not large.any():
            super()._take_in(keys, numbers, items)
            return
        of_large = large[items.owners]
        apart = items.where(of_large)
        assert apart.user_keys is not None
        self.put_entries(keys.take(apart.owners).encoded, apart.user_keys, apart.cells)
        rest = items.where(~of_large)
        rest = Items(rest.sizes[~large], rest.cells, rest.user_keys)
        load(self.front, keys.where(~large), rest)

    # -------------------------------------------------------------- the whole table

    def cells_now(self, numbers: Positions) -> pa.BinaryArray:
        """See `RunsTable`; what is too large for a cell moves into the second table."""
        self._make_room()
        if self.layout.kind is StateKind.LIST and self._large[numbers].any():
            self._take_tails(numbers[self._large[numbers]])
        cells = super().cells_now(numbers)
        lengths = pc.binary_length(cells).fill_null(0).to_numpy(zero_copy_only=False)
        too_long = (lengths > CELL_BYTES) & ~self._large[numbers]
        if too_long.any():
            self._move_out(numbers[too_long], cells.filter(pa.array(too_long)))
        large = self._large[numbers]
        if not large.any():
            return cells
        of_large = numbers[large]
        markers = marker_cells(self._counts[of_large], self._following[of_large])
        return markers if large.all() else pc.replace_with_mask(cells, pa.array(large), markers)

    def _move_out(self, numbers: Positions, cells: pa.BinaryArray) -> None:
        items = cell_bytes.decode(self.layout, cells)
        keys = KeyBatch(BYTES, self.working.prefixes(numbers))
        user_keys, following = items.user_keys, np.zeros(len(numbers), dtype=np.int64)
        if user_keys is None:
            following = items.sizes
            user_keys = element_keys(spread(np.zeros_like(following), following))
        rows = entry_rows(keys.take(items.owners).encoded, user_keys)
        self.entries.put(rows, items.cells, may_be_stored=False)
        self._make_large(numbers, items.sizes, following)
        self.front.clear_many(keys, None)

    def _are_there(self, numbers: Positions) -> Flags:
        found = super()._are_there(numbers)
        return found | self._large[numbers] if self.any_large else found

    def stamps(self) -> Iterator[Positions]:
        """See `RunsTable`; those of the second table follow."""
        yield from super().stamps()
        yield from self.entries.stamps()

    def walk(self) -> Walk:
        """A new walk: first the rows, then the second table."""
        return EntriesWalk(self, super().walk())

"""The common part of tables on runs: a heap table contains the opened rows of the working set.

A row is *opened* for a state when the state is first asked about it: its cell is decoded into the
heap table, under its prefix. Cells of other states are written back as the same bytes. Elements
that are appended to a list that is not open are a *tail*: the heap table contains only them, and
they are appended to the cell when rows are written back.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Flags, Positions
from idlestate.backends.runs.byte_index import ABSENT, distinct, grown
from idlestate.backends.runs.fields import is_valid
from idlestate.backends.runs.rows import Rows
from idlestate.state.descriptors import StateKind
from idlestate.state.key_batch import KeyBatch
from idlestate.state.key_groups import ALL_GROUPS, KeyGroupRange
from idlestate.state.row_keys import KeyLayout
from idlestate.state.runs import cell_bytes
from idlestate.state.runs.all_rows import cells_of, portions, state_rows
from idlestate.state.runs.cell_bytes import Items
from idlestate.state.runs.entry_rows import markers_in
from idlestate.state.runs.entry_table import EntryTable
from idlestate.state.runs.opened_rows import Front, load, make_front, read
from idlestate.state.runs.sweep_of_values import StoredWalk
from idlestate.state.runs.working_set import BYTES, WorkingSet
from idlestate.state.state_schema import StateSchema
from idlestate.state.table import Row, Table, Walk

LOADED: Final = 10_000
"""Rows of a snapshot that are loaded together."""


class RunsTable(Table):
    """One state in the rows of a working set.

    Attributes:
        family: its column.
        working: the working set.
        front: the heap table with opened rows, by prefix.
        entries: the second table, of lists and maps.
    """

    front: Front
    entries: EntryTable | None = None

    def __init__(self, keys: KeyLayout, schema: StateSchema, rows: WorkingSet) -> None:
        """The table of a column of the working set."""
        self.key_layout, self.layout = keys, schema.layout
        self.schema, self.family = schema, schema.family
        self.working = rows
        self.reset()

    def reset(self) -> None:
        """Start with an empty working set."""
        self.front = make_front(self.layout)
        self._opened = np.zeros(0, dtype=np.bool_)
        self._tailed = np.zeros(0, dtype=np.bool_)

    # -------------------------------------------------------------- rows of calls

    def to_read(self, key: Any, namespace: Any) -> bytes:
        """The prefix of a key, whose row is opened."""
        prefix, number = self.working.one(key, namespace)
        self._make_room()
        if not self._opened[number]:
            # Rows that were fetched together will be read together.
            self._open(self.working.together(number))
        return prefix

    def to_change(self, key: Any, namespace: Any) -> bytes:
        """The same for a call that changes existing data."""
        prefix = self.to_read(key, namespace)
        self.working.dirty[self.working.one(key, namespace).number] = True
        return prefix

    def to_replace(self, key: Any, namespace: Any) -> bytes:
        """The same for a call that replaces all existing data."""
        prefix, number = self.working.one(key, namespace)
        self._make_room()
        self._opened[number] = self.working.dirty[number] = True
        self._tailed[number] = False
        return prefix

    def to_append(self, key: Any, namespace: Any) -> bytes:
        """The same for a call that reads nothing: the row stays closed."""
        prefix, number = self.working.one(key, namespace)
        self._make_room()
        self._tailed[number] = not self._opened[number]
        self.working.dirty[number] = True
        return prefix

    def many_to_read(self, keys: KeyBatch, namespace: Any) -> KeyBatch:
        """`to_read` of many keys."""
        prefixes, numbers = self.working.many(keys, namespace)
        self._open(numbers)
        return prefixes

    def many_to_change(self, keys: KeyBatch, namespace: Any) -> KeyBatch:
        """`to_change` of many keys."""
        prefixes, numbers = self.working.many(keys, namespace)
        self._open(numbers)
        self.working.dirty[numbers] = True
        return prefixes

    def many_to_replace(self, keys: KeyBatch, namespace: Any) -> KeyBatch:
        """`to_replace` of many keys."""
        prefixes, numbers = self.working.many(keys, namespace)
        self._make_room()
        self._opened[numbers] = self.working.dirty[numbers] = True
        self._tailed[numbers] = False
        return prefixes

    def many_to_append(self, keys: KeyBatch, namespace: Any) -> KeyBatch:
        """`to_append` of many keys."""
        prefixes, numbers = self.working.many(keys, namespace)
        self._make_room()
        self._tailed[numbers] = ~self._opened[numbers]
        self.working.dirty[numbers] = True
        return prefixes

    def _make_room(self) -> None:
        count = self.working.index.count
        had = len(self._opened)
        if had < count:
            self._opened, self._tailed = grown(self._opened, count), grown(self._tailed, count)
            self._opened[had:] = self._tailed[had:] = False

    def _open(self, numbers: Positions) -> None:
        """Open rows."""
        self._make_room()
        numbers = distinct(numbers[~self._opened[numbers]])
        if not len(numbers):
            return
        keys = KeyBatch(BYTES, self.working.prefixes(numbers))
        tails = keys.where(self._tailed[numbers])
        _, tail = read(self.front, tails)
        if len(tails):
            self.front.clear_many(tails, None)
        cells = self.working.cells(self.family, numbers)
        there = cells.is_valid()
        load(self.front, keys.where(there), cell_bytes.decode(self.layout, cells.filter(there)))
        load(self.front, tails, tail)
        self._opened[numbers] = True
        self._tailed[numbers] = False

    def clear(self, key: Any, namespace: Any) -> None:
        """Remove everything of the key in the namespace."""
        prefix = self.to_replace(key, namespace)
        self.front.clear(prefix, None)

    def clear_many(self, keys: KeyBatch, namespace: Any) -> None:
        """`clear` of many keys."""
        prefixes = self.many_to_replace(keys, namespace)
        self.front.clear_many(prefixes, None)

    # -------------------------------------------------------------- the whole table

    def cells_now(self, numbers: Positions) -> pa.BinaryArray:
        """The current cells of rows."""
        self._make_room()
        cells = self.working.cells(self.family, numbers)
        changed = self._opened[numbers] | self._tailed[numbers]
        if not changed.any():
            return cells
        there, items = read(self.front, KeyBatch(BYTES, self.working.prefixes(numbers[changed])))
        now = cell_bytes.encode(self.layout, items, there)
        tailed = self._tailed[numbers[changed]]
        if tailed.any():
            before = cells.filter(pa.array(changed))
            both = pc.binary_join_element_wise(before.fill_null(b""), now, b"")
            now = pc.if_else(pa.array(tailed), both, now)
        return now if changed.all() else pc.replace_with_mask(cells, pa.array(changed), now)

    def _are_there(self, numbers: Positions) -> Flags:
        """Whether each row in memory has data of this state."""
        self._make_room()
        found = is_valid(self.working.cells(self.family, numbers))
        changed = self._opened[numbers] | self._tailed[numbers]
        if changed.any():
            self.front.settle()
            prefixes = self.working.prefixes(numbers[changed])
            found = found.copy()
            found[changed] = self.front.columns.index.find(prefixes, 0) != ABSENT
        return found

    def addresses(self) -> Iterator[pa.BinaryArray]:
        """The prefixes of all rows with data of this state."""
        numbers = np.arange(self.working.index.count)
        yield self.working.prefixes(numbers[self._are_there(numbers)])
        for rows in portions(self.working.stored):
            cells = cells_of(rows, self.working.stored, self.family)
            prefixes = rows.keys[0].filter(cells.is_valid())
            yield prefixes.filter(pa.array(~self.working.has(prefixes)))

    def size(self) -> int:
        """Keys of all namespaces, including those with an empty map."""
        return sum(map(len, self.addresses()))

    def is_blank(self) -> bool:
        """Whether nothing is stored, expired or not."""
        return not any(map(len, self.addresses()))

    def keys(self, namespace: Any) -> Iterator[Any]:
        """Keys with stored data in the namespace."""
        prefixes = [row for some in self.addresses() for row in some.to_pylist()]
        split = map(self.key_layout.split, prefixes)
        return (each.key for each in split if each.namespace == namespace)

    def walk(self) -> Walk:
        """A walk from the beginning."""
        return StoredWalk(self)

    def below(self, rows: Rows) -> tuple[pa.BinaryArray, Items]:
        """The prefixes and contents of rows of the runs that are not in memory.

        Rows without data of this state, and the markers of large lists and maps, are left out.
        """
        cells = cells_of(rows, self.working.stored, self.family)
        mine = is_valid(cells) & ~self.working.has(rows.keys[0])
        if self.entries is not None:
            mine &= ~markers_in(cells).marked
        mask = pa.array(mine)
        return rows.keys[0].filter(mask), cell_bytes.decode(self.layout, cells.filter(mask))

    def stamps(self) -> Iterator[Positions]:
        """The timestamps of all values, elements and entries, in portions."""
        for rows in portions(self.working.stored):
            yield self.below(rows)[1].cells.stamps_there
        self.open_all()
        yield from self.front.stamps()

    def open_all(self) -> None:
        """Open all rows in memory."""
        self._open(np.arange(self.working.index.count))

    def rows(self, groups: KeyGroupRange = ALL_GROUPS) -> Iterator[Row]:
        """All rows of these key groups, in the order of their bytes."""
        self.working.spill()
        return self.stored_rows()(groups)

    def stored_rows(self) -> Callable[[KeyGroupRange], Iterator[Row]]:
        """The current content of the runs, as a part of a snapshot."""
        entries = None if self.entries is None else self.entries.stored
        return state_rows(self.working.stored, self.schema, entries)

    def load(self, rows: Iterable[Row]) -> None:
        """Add rows of another table."""
        left, end = iter(rows), self.key_layout.end_of_prefix
        while some := list(islice(left, LOADED)):
            each = [
                (prefix, list(together))
                for prefix, together in groupby(some, lambda row: row.key[: end(row.key)])
            ]
            prefixes = pa.array([prefix for prefix, _ in each], pa.binary())
            numbers = self.working.numbers(prefixes)
            self._open(numbers)
            self.working.dirty[numbers] = True
            self._take_in(KeyBatch(BYTES, prefixes), numbers, self._items(each))

    def _take_in(self, keys: KeyBatch, _numbers: Positions, items: Items) -> None:
        """Add the data of a snapshot for distinct keys that were just opened."""
        load(self.front, keys, items)

    def _items(self, each: list[tuple[bytes, list[Row]]]) -> Items:
        """The content of rows, which are grouped by key."""
        layout = self.layout
        if layout.kind is StateKind.LIST:
            cells = [b"".join([row.value for row in rows]) for _, rows in each]
            return cell_bytes.decode(layout, pa.array(cells, pa.binary()))
        # A row that is not longer than its prefix belongs to an empty map.
        entries = [
            [row for row in rows if layout.user_key is None or len(row.key) > len(prefix)]
            for prefix, rows in each
        ]
        names = [
            row.key[len(prefix) :]
            for (prefix, _), rows in zip(each, entries, strict=True)
            for row in rows
        ]
        values = [row.value for rows in entries for row in rows]
        sizes = np.array([len(rows) for rows in entries])
        return Items(sizes, layout.decode_many(values), pa.array(names, pa.binary()))

"""The tables of each kind of state on runs: rows are touched, then a heap table does the work.

Touching a row may write others back, which creates a new heap table, so it comes first.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Flags
from idlestate.state.batch_values import Cells, Column, Lists, Stored
from idlestate.state.descriptors import StateKind
from idlestate.state.heap.heap_list import HeapListTable
from idlestate.state.heap.heap_map import HeapMapTable
from idlestate.state.heap.values_table import HeapSingleTable
from idlestate.state.key_batch import KeyBatch
from idlestate.state.runs.entry_rows import entry_row, entry_rows, parts_of
from idlestate.state.runs.runs_items import RunsItemsTable
from idlestate.state.runs.runs_table import RunsTable
from idlestate.state.table import ListTable, MapTable, SingleTable


class RunsSingleTable(RunsTable, SingleTable):
    """One stored value per key."""

    front: HeapSingleTable

    def get(self, key: Any, namespace: Any) -> Stored:
        """The stored value; None if there is none."""
        prefix = self.to_read(key, namespace)
        return self.front.get(prefix, None)

    def put(self, key: Any, namespace: Any, stored: Stored) -> None:
        """Store; None stays as an entry without a value, as in Flink."""
        stored = self.layout.normal(stored)  # may refuse it, which must leave the row as it is
        prefix = self.to_replace(key, namespace)
        self.front.place(prefix, None, stored)

    def get_many(self, keys: KeyBatch, namespace: Any) -> Cells:
        """`get` of many keys."""
        prefixes = self.many_to_read(keys, namespace)
        return self.front.get_many(prefixes, None)

    def put_many(
        self, keys: KeyBatch, namespace: Any, values: Column, has: Flags, stamp_ms: int
    ) -> None:
        """Store a value, or `clear` if there is none."""
        prefixes = self.many_to_replace(keys, namespace)
        self.front.put_many(prefixes, None, values, has, stamp_ms)

    def restamp(self, keys: KeyBatch, namespace: Any, found: Cells, stamp_ms: int) -> None:
        """Set a new timestamp for values that were just found."""
        prefixes = self.many_to_change(keys, namespace)
        self.front.restamp(prefixes, None, found, stamp_ms)


class RunsListTable(RunsItemsTable, ListTable):
    """A list per key."""

    front: HeapListTable

    def get(self, key: Any, namespace: Any) -> list[Stored] | None:
        """A copy of the list; None if there is none."""
        prefix = self.to_read(key, namespace)
        if self.is_large(key, namespace):
            _, numbers = self.entries_of(pa.array([prefix], pa.binary()))
            return self.entries.at(numbers).stored()
        return self.front.get(prefix, None)

    def put(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Replace the list; an empty list is removed."""
        prefix = self.to_replace(key, namespace)
        self.front.put(prefix, None, items)

    def append(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Append items."""
        prefix = self.to_append(key, namespace)
        self.front.append(prefix, None, items)

    def get_many(self, keys: KeyBatch, namespace: Any) -> Lists:
        """`get` of many keys."""
        prefixes = self.many_to_read(keys, namespace)
        large = self.large_in(prefixes)
        if not large.any():
            return self.front.get_many(prefixes, None)
        few = self.front.get_many(prefixes.where(~large), None)
        sizes, numbers = self.entries_of(prefixes.where(large).encoded)
        return few.mixed(large, Lists(sizes > 0, sizes, self.entries.at(numbers)))

    def append_many(self, keys: KeyBatch, namespace: Any, values: Column, stamp_ms: int) -> None:
        """`append` of one item for each key."""
        prefixes = self.many_to_append(keys, namespace)
        self.front.append_many(prefixes, None, values, stamp_ms)


class RunsMapTable(RunsItemsTable, MapTable):
    """A map per key."""

    front: HeapMapTable

    def has(self, key: Any, namespace: Any, user_key: Any) -> bool:
        """Whether there is an entry, with or without a value."""
        prefix = self.to_read(key, namespace)
        if self.is_large(key, namespace):
            return self.entries.has(self._row(prefix, user_key))
        return self.front.has(prefix, None, user_key)

    def get(self, key: Any, namespace: Any, user_key: Any) -> Stored:
        """The entry's value; None if there is none."""
        prefix = self.to_read(key, namespace)
        if self.any_large and self.is_large(key, namespace):
            return self.entries.get(self._row(prefix, user_key))
        return self.front.get(prefix, None, user_key)

    def put_all(self, key: Any, namespace: Any, entries: dict[Any, Stored]) -> None:
        """Set entries; without entries, a missing map becomes an empty one."""
        prefix = self.to_change(key, namespace)
        if not self.is_large(key, namespace):
            self.front.put_all(prefix, None, entries)
        elif entries:
            layout = self.layout
            stored = list(entries.values())
            cells = Cells.of(stored, layout.value.kind, stamped=layout.stamped)
            user_keys = map(layout.encode_user_key, entries)
            owners = pa.array([prefix] * len(entries), pa.binary())
            self.put_entries(owners, pa.array(user_keys, pa.binary()), cells)

    def remove(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry; removing the last one removes the map."""
        prefix = self.to_change(key, namespace)
        if self.is_large(key, namespace):
            self._remove(prefix, user_key, keep_empty=False)
        else:
            self.front.remove(prefix, None, user_key)

    def discard(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry like an iterator: an empty map stays."""
        prefix = self.to_change(key, namespace)
        if self.is_large(key, namespace):
            self._remove(prefix, user_key, keep_empty=True)
        else:
            self.front.discard(prefix, None, user_key)

    def _remove(self, prefix: bytes, user_key: Any, *, keep_empty: bool) -> None:
        user_keys = pa.array([self.layout.encode_user_key(user_key)], pa.binary())
        self.remove_entries(pa.array([prefix], pa.binary()), user_keys, keep_empty=keep_empty)

    def _row(self, prefix: bytes, user_key: Any) -> bytes:
        return entry_row(prefix, self.layout.encode_user_key(user_key))

    def user_keys(self, key: Any, namespace: Any) -> list[Any]:
        """Keys of the entries."""
        prefix = self.to_read(key, namespace)
        if self.is_large(key, namespace):
            _, numbers = self.entries_of(pa.array([prefix], pa.binary()))
            _, user_keys = parts_of(self.entries.rows(numbers))
            return list(map(self.layout.decode_user_key, user_keys.to_pylist()))
        return self.front.user_keys(prefix, None)

    def is_empty(self, key: Any, namespace: Any) -> bool:
        """Whether nothing is stored, expired or not."""
        prefix = self.to_read(key, namespace)
        if self.is_large(key, namespace):
            return not self.count(prefix)
        return self.front.is_empty(prefix, None)

    def get_many(self, keys: KeyBatch, namespace: Any, user_keys: KeyBatch) -> Cells:
        """`get` of many entries."""
        prefixes = self.many_to_read(keys, namespace)
        large = self.large_in(prefixes)
        if not large.any():
            return self.front.get_many(prefixes, None, user_keys)
        few = self.front.get_many(prefixes.where(~large), None, user_keys.where(~large))
        rows = entry_rows(prefixes.where(large).encoded, user_keys.where(large).encoded)
        many = self.entries.at(self.entries.numbers(rows))
        return few.then(many).take(np.argsort(np.argsort(large, kind="stable"), kind="stable"))

    def put_many(
        self,
        keys: KeyBatch,
        namespace: Any,
        user_keys: KeyBatch,
        values: Column,
        has: Flags,
        stamp_ms: int,
    ) -> None:
        """Set one entry for each of many keys."""
        prefixes = self.many_to_change(keys, namespace)
        large = self.large_in(prefixes)
        if large.any():
            stamps = np.full(int(large.sum()), stamp_ms) if self.layout.stamped else None
            there = has[large] | self.layout.stamped
            cells = Cells(values[large], has[large], there, stamps)
            owners, inside = prefixes.where(large), user_keys.where(large)
            self.put_entries(owners.encoded, inside.encoded, cells)
            prefixes, user_keys = prefixes.where(~large), user_keys.where(~large)
            values, has = values[~large], has[~large]
        self.front.put_many(prefixes, None, user_keys, values, has, stamp_ms)

    def remove_many(self, keys: KeyBatch, namespace: Any, user_keys: KeyBatch) -> None:
        """`remove` of one entry for each of many keys."""
        prefixes = self.many_to_change(keys, namespace)
        large = self.large_in(prefixes)
        if large.any():
            owners, inside = prefixes.where(large), user_keys.where(large)
            self.remove_entries(owners.encoded, inside.encoded, keep_empty=False)
            prefixes, user_keys = prefixes.where(~large), user_keys.where(~large)
        self.front.remove_many(prefixes, None, user_keys)


ITEMS_TABLES: dict[StateKind, type[RunsListTable | RunsMapTable]] = {
    StateKind.LIST: RunsListTable,
    StateKind.MAP: RunsMapTable,
}

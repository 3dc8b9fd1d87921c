"""A map per key on heap."""

from collections.abc import Collection
from typing import Any

import numpy as np

from idlestate.backends.runs.byte_arrays import Flags
from idlestate.backends.runs.byte_index import ABSENT
from idlestate.state.batch_values import Cells, Column, Stored
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.heap.entries import HeapEntries
from idlestate.state.heap.frozen_rows import FrozenMaps
from idlestate.state.heap.heap_items import ItemsTable, Space
from idlestate.state.key_batch import KeyBatch
from idlestate.state.row_keys import KeyLayout
from idlestate.state.table import MapTable, Removed


class HeapMapTable(ItemsTable, MapTable):
    """A map per key."""

    columns: HeapEntries

    _frozen = FrozenMaps

    def __init__(self, keys: KeyLayout, layout: ValueLayout) -> None:
        """An empty table."""
        super().__init__(keys, layout, HeapEntries(layout))

    def _map(self, key: Any, namespace: Any) -> dict[Any, Stored]:
        found: dict[Any, Stored] | None = self.found(key, namespace)
        return {} if found is None else found

    def has(self, key: Any, namespace: Any, user_key: Any) -> bool:
        """Whether there is an entry, with or without a value."""
        if (entries := self.in_dicts(key, namespace)) is not None:
            return user_key in entries
        return self._entry(key, namespace, user_key) != ABSENT

    def get(self, key: Any, namespace: Any, user_key: Any) -> Stored:
        """The entry's value; None if there is none."""
        space = self._spaces.get(namespace)
        if space is not None and (entries := space.get(key)) is not None:
            return entries.get(user_key)
        if self._layers and (entries := self.in_layers(key, namespace)) is not None:
            return entries.get(user_key)
        number = self._entry(key, namespace, user_key)
        return None if number == ABSENT else self.columns.stored(number)

    def _entry(self, key: Any, namespace: Any, user_key: Any) -> int:
        if not self.columns.live:
            return ABSENT
        data = self.key_layout.key.encode(key)
        return self.columns.find_entry(data, namespace, self.layout.encode_user_key(user_key))

    def put_all(self, key: Any, namespace: Any, entries: dict[Any, Stored]) -> None:
        """Set entries; without entries, a missing map becomes an empty one."""
        found = self.mine(key, namespace)
        if found is None:
            self.place(key, namespace, dict(entries))
        else:
            found.update(entries)

    def remove(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry; removing the last one removes the map."""
        found = self._popped(key, namespace, user_key)
        if found is not None and not found:
            self.clear(key, namespace)

    def discard(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry like an iterator: an empty map stays."""
        self._popped(key, namespace, user_key)

    def _popped(self, key: Any, namespace: Any, user_key: Any) -> dict[Any, Stored] | None:
        """The map of a key without one entry; None if there is no map."""
        found: dict[Any, Stored] | None = self.mine(key, namespace)
        if found is not None:
            found.pop(user_key, None)
        return found

    def user_keys(self, key: Any, namespace: Any) -> list[Any]:
        """Keys of the entries."""
        return list(self._map(key, namespace))

    def is_empty(self, key: Any, namespace: Any) -> bool:
        """Whether nothing is stored, expired or not."""
        return not self._map(key, namespace)

    def get_many(self, keys: KeyBatch, namespace: Any, user_keys: KeyBatch) -> Cells:
        """`get` of many entries."""
        if not self.is_small(keys):
            found = self.columns.find_entries(keys, namespace, user_keys.encoded)
            return self.columns.at(found)
        each = zip(keys.keys, user_keys.keys, strict=True)
        stored = [self.get(key, namespace, user_key) for key, user_key in each]
        return Cells.of(stored, self.layout.value.kind, stamped=self.layout.stamped)

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
        if not self.is_small(keys):
            self.columns.put(keys, namespace, user_keys.encoded, values, has, stamp_ms)
            return
        stamped, values_or_none = self.layout.stamped, Cells(values, has, has, None).objects()
        for key, user_key, value in zip(keys.keys, user_keys.keys, values_or_none, strict=True):
            self.put_all(key, namespace, {user_key: (value, stamp_ms) if stamped else value})

    def remove_many(self, keys: KeyBatch, namespace: Any, user_keys: KeyBatch) -> None:
        """`remove` of one entry for each of many keys."""
        if self.is_small(keys):
            for key, user_key in zip(keys.keys, user_keys.keys, strict=True):
                self.remove(key, namespace, user_key)
        else:
            self.columns.remove_entries(keys, namespace, user_keys.encoded)
            self.columns.compact_if_sparse()

    def items(self, key: Any, namespace: Any) -> Collection[Stored]:
        """The values of a key's entries."""
        return self._map(key, namespace).values()

    def expel(self, key: Any, namespace: Any, horizon_ms: int, removed: Removed | None) -> int:
        """Remove old entries; removing the last one removes the map."""
        entries = self._map(key, namespace)
        old = {each: item for each, item in entries.items() if item and item[1] <= horizon_ms}
        for user_key in old:
            self.remove(key, namespace, user_key)
        if removed is not None:
            removed.keys.extend([key] * len(old))
            removed.namespaces.extend([namespace] * len(old))
            removed.user_keys.extend(old)
            removed.stored.extend(old.values())
        return len(old)

    def user_keys_of(self, numbers: Any, /) -> list[Any]:
        """The user keys of entries in the columns."""
        decode, name = self.layout.decode_user_key, self.columns.user_key
        return [decode(name(number)) for number in numbers.tolist()]

    def _unpacked(self, number: int, /) -> Any:
        numbers = self.columns.items_of(number)
        stored = map(self.columns.stored, numbers)
        return dict(zip(self.user_keys_of(np.array(numbers)), stored, strict=True))

    def _pack(self, keys: KeyBatch, namespace: Any, some: list[tuple[Any, Any]], /) -> None:
        sizes = [len(entries) for _, entries in some]
        user_keys = self.layout.user_keys([each for _, entries in some for each in entries])
        flat = [stored for _, entries in some for stored in entries.values()]
        cells = Cells.of(flat, self.layout.value.kind, stamped=self.layout.stamped)
        owners = keys.take(np.repeat(np.arange(len(some)), sizes))
        self.columns.own(keys, namespace)  # including those with an empty map
        self.columns.put(
            owners, namespace, user_keys.encoded, cells.values, cells.has, cells.stamps
        )

    def _take(self, space: Space, key: Any, value: bytes, rest: bytes, /) -> None:
        entries = space.setdefault(key, {})
        if rest:
            entries[self.layout.decode_user_key(rest)] = self.layout.decode(value)

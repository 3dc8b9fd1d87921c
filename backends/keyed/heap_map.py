"""A map per key on heap."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from idlestate.backends.keyed.cells import Stored
from idlestate.backends.keyed.heap_table import DictTable, Space
from idlestate.backends.keyed.key_batch import KeyBatch
from idlestate.backends.keyed.table import MapTable, Removed, Row


class HeapMapTable(DictTable, MapTable):
    """A map per key."""

    def _map(self, key: Any, namespace: Any) -> dict[Any, Stored]:
        space = self._spaces.get(namespace)
        found = None if space is None else space.get(key)
        return {} if found is None else found

    def has(self, key: Any, namespace: Any, user_key: Any) -> bool:
        """Whether there is an entry, also one without a value."""
        return user_key in self._map(key, namespace)

    def get(self, key: Any, namespace: Any, user_key: Any) -> Stored:
        """The entry's value, None when there is none."""
        return self._map(key, namespace).get(user_key)

    def put_all(self, key: Any, namespace: Any, entries: dict[Any, Stored]) -> None:
        """Set entries; without any a map that is not there becomes an empty one."""
        space = self.space(namespace)
        found = self.mine(key, namespace, space)
        if found is None:
            space[key] = dict(entries)
            if self._frozen:
                self._own.add((key, namespace))
        else:
            found.update(entries)

    def remove(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry; the last one takes the map with it."""
        space = self._spaces.get(namespace)
        if space is None or key not in space:
            return
        found = self.mine(key, namespace, space)
        found.pop(user_key, None)
        if not found:
            self.clear(key, namespace)

    def discard(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry as an iterator does: an empty map stays."""
        space = self._spaces.get(namespace)
        if space is not None and key in space:
            self.mine(key, namespace, space).pop(user_key, None)

    def user_keys(self, key: Any, namespace: Any) -> list[Any]:
        """Keys of the entries."""
        return list(self._map(key, namespace))

    def is_empty(self, key: Any, namespace: Any) -> bool:
        """Whether nothing is stored, expired or not."""
        return not self._map(key, namespace)

    def get_many(self, keys: KeyBatch, namespace: Any, user_keys: Sequence[Any]) -> list[Stored]:
        """`get` of many entries."""
        get = self._spaces.get(namespace, {}).get
        nothing: dict[Any, Stored] = {}
        return [
            get(key, nothing).get(user_key)
            for key, user_key in zip(keys.keys, user_keys, strict=True)
        ]

    def put_many(
        self,
        keys: KeyBatch,
        namespace: Any,
        user_keys: Sequence[Any],
        stored: Sequence[Stored],
    ) -> None:
        """Set one entry for each of many keys."""
        if self._frozen:
            for key, user_key, each in zip(keys.keys, user_keys, stored, strict=True):
                self.put_all(key, namespace, {user_key: each})
            return
        space = self.space(namespace)
        get = space.get
        for key, user_key, each in zip(keys.keys, user_keys, stored, strict=True):
            found = get(key)
            if found is None:
                space[key] = {user_key: each}
            else:
                found[user_key] = each

    def remove_many(self, keys: KeyBatch, namespace: Any, user_keys: Sequence[Any]) -> None:
        """`remove` of one entry for each of many keys."""
        for key, user_key in zip(keys.keys, user_keys, strict=True):
            self.remove(key, namespace, user_key)

    def items(self, key: Any, namespace: Any) -> Collection[Stored]:
        """The values of a key's entries."""
        return self._map(key, namespace).values()

    def expel(self, key: Any, namespace: Any, horizon_ms: int, removed: Removed | None) -> int:
        """Remove old entries; the last one takes the map with it."""
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

    def _to_rows(self, prefix: bytes, stored: Any) -> Iterator[Row]:
        # The empty map of a key is one row without a user key, which no entry can have.
        if not stored:
            yield Row(prefix, b"")
        layout = self.layout
        entries = ((prefix + layout.encode_user_key(each), stored[each]) for each in stored)
        for row, value in sorted(entries):
            yield Row(row, layout.encode(value))

    def _take(self, space: Space, key: Any, value: bytes, rest: bytes, /) -> None:
        entries = space.setdefault(key, {})
        if rest:
            entries[self.layout.decode_user_key(rest)] = self.layout.decode(value)

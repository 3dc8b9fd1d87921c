"""A list per key on heap."""

from collections.abc import Collection, Iterator
from typing import Any

from idlestate.backends.keyed.cells import Column, Stored
from idlestate.backends.keyed.heap_table import DictTable, Space
from idlestate.backends.keyed.key_batch import KeyBatch
from idlestate.backends.keyed.rows import MERGED
from idlestate.backends.keyed.table import ListTable, Removed, Row


class HeapListTable(DictTable, ListTable):
    """A list per key."""

    def get(self, key: Any, namespace: Any) -> list[Stored] | None:
        """A copy of the list, None when there is none."""
        space = self._spaces.get(namespace)
        found = None if space is None else space.get(key)
        return None if found is None else found.copy()

    def put(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Replace the list; an empty one is removed."""
        if not items:
            self.clear(key, namespace)
            return
        self.space(namespace)[key] = items
        if self._frozen:
            self._own.add((key, namespace))

    def append(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Put items behind the others."""
        space = self.space(namespace)
        found = self.mine(key, namespace, space)
        if found is None:
            self.put(key, namespace, list(items))
        else:
            found.extend(items)

    def append_many(self, keys: KeyBatch, namespace: Any, values: Column, stamp_ms: int) -> None:
        """`append` of one item for each key."""
        items: list[Stored] = values.tolist()
        if self.layout.stamped:
            items = [(value, stamp_ms) for value in items]
        space = self.space(namespace)
        if self._frozen:
            for key, item in zip(keys.keys, items, strict=True):
                self.append(key, namespace, [item])
            return
        get = space.get
        for key, item in zip(keys.keys, items, strict=True):
            found = get(key)
            if found is None:
                space[key] = [item]
            else:
                found.append(item)

    def items(self, key: Any, namespace: Any) -> Collection[Stored]:
        """The elements of a key."""
        items: list[Stored] = self._spaces.get(namespace, {}).get(key, [])
        return items

    def expel(self, key: Any, namespace: Any, horizon_ms: int, removed: Removed | None) -> int:
        """Remove old elements, wherever they are."""
        items = self.items(key, namespace)
        old = [item for item in items if item[1] <= horizon_ms]
        if old:
            self.put(key, namespace, [item for item in items if item[1] > horizon_ms])
        if removed is not None:
            removed.keys.extend([key] * len(old))
            removed.namespaces.extend([namespace] * len(old))
            removed.stored.extend(old)
        return len(old)

    def _to_rows(self, prefix: bytes, stored: Any) -> Iterator[Row]:
        yield Row(prefix + MERGED, self.layout.encode_items(stored))

    def _take(self, space: Space, key: Any, value: bytes, _rest: bytes, /) -> None:
        # A row of appends comes behind the row of the merged list.
        space.setdefault(key, []).extend(self.layout.decode_items(value))

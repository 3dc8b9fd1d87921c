"""A list per key on heap."""

from collections.abc import Collection
from itertools import chain
from typing import Any

import numpy as np

from idlestate.state.batch_values import Cells, Column, Lists, Stored
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.heap.frozen_rows import FrozenLists
from idlestate.state.heap.heap_items import ItemsTable, Space
from idlestate.state.heap.item_chains import HeapChains
from idlestate.state.key_batch import KeyBatch
from idlestate.state.row_keys import KeyLayout
from idlestate.state.table import ListTable, Removed


class HeapListTable(ItemsTable, ListTable):
    """A list per key."""

    _frozen = FrozenLists

    def __init__(self, keys: KeyLayout, layout: ValueLayout) -> None:
        """An empty table."""
        super().__init__(keys, layout, HeapChains(layout))

    def get(self, key: Any, namespace: Any) -> list[Stored] | None:
        """A copy of the list; None if there is none."""
        found = self.found(key, namespace)
        return None if found is None else found.copy()

    def put(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Replace the list; an empty list is removed."""
        self.clear(key, namespace)
        if items:
            self.place(key, namespace, items)

    def append(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Append items."""
        found = self.mine(key, namespace)
        if found is None:
            self.place(key, namespace, list(items))
        else:
            found.extend(items)

    def get_many(self, keys: KeyBatch, namespace: Any) -> Lists:
        """`get` of many keys."""
        if self.is_small(keys):
            return super().get_many(keys, namespace)
        return self.columns.lists(keys, namespace)

    def append_many(self, keys: KeyBatch, namespace: Any, values: Column, stamp_ms: int) -> None:
        """`append` of one item for each key."""
        if not self.is_small(keys):
            has = np.ones(len(values), dtype=np.bool_)
            self.columns.append(keys, namespace, values, has, stamp_ms)
            return
        stamped = self.layout.stamped
        for key, item in zip(keys.keys, values.tolist(), strict=True):
            self.append(key, namespace, [(item, stamp_ms) if stamped else item])

    def items(self, key: Any, namespace: Any) -> Collection[Stored]:
        """The elements of a key."""
        items: list[Stored] = self.found(key, namespace) or []
        return items

    def expel(self, key: Any, namespace: Any, horizon_ms: int, removed: Removed | None) -> int:
        """Remove old elements anywhere in the list."""
        items = self.items(key, namespace)
        old = [item for item in items if item[1] <= horizon_ms]
        if old:
            self.put(key, namespace, [item for item in items if item[1] > horizon_ms])
        if removed is not None:
            removed.keys.extend([key] * len(old))
            removed.namespaces.extend([namespace] * len(old))
            removed.stored.extend(old)
        return len(old)

    def _unpacked(self, number: int, /) -> Any:
        return [self.columns.stored(item) for item in self.columns.items_of(number)]

    def _pack(self, keys: KeyBatch, namespace: Any, some: list[tuple[Any, Any]], /) -> None:
        sizes = [len(items) for _, items in some]
        flat = list(chain.from_iterable(items for _, items in some))
        cells = Cells.of(flat, self.layout.value.kind, stamped=self.layout.stamped)
        owners = keys.take(np.repeat(np.arange(len(some)), sizes))
        self.columns.append(owners, namespace, cells.values, cells.has, cells.stamps)

    def _take(self, space: Space, key: Any, value: bytes, _rest: bytes, /) -> None:
        # Rows of appends follow the row of the merged list.
        space.setdefault(key, []).extend(self.layout.decode_items(value))

"""The common part of lists and maps on heap: dicts for single calls, columns for batches.

A key's list or map is in one of two places. Single calls read and change it in dicts, where they
are fast. A batch first moves the content of dicts into columns, which need no objects for a million
keys. A single call that changes data in the columns moves that key back; reads leave it there.
"""

import sys
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import numpy as np

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.backends.runs.byte_index import ABSENT
from idlestate.state.batch_values import Stored
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.heap.copy_on_write_columns import Held
from idlestate.state.heap.frozen_rows import (
    Front,
    FrozenChains,
    FrozenTable,
    merged_fronts,
)
from idlestate.state.heap.heap_keys import AT_ONCE
from idlestate.state.heap.item_chains import HeapChains
from idlestate.state.heap.sweep_of_lists_and_maps import ItemsWalk
from idlestate.state.key_batch import KeyBatch
from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.row_keys import KeyLayout
from idlestate.state.table import Removed, Row, Table, Walk
from idlestate.state.usage import Usage

Space = dict[Any, Any]

DICT_BYTES: Final = 110
"""The maximum bytes of a dict per key, while it only grows."""

SMALL: Final = 16
"""Smaller batches are processed key by key."""

FOLD: Final = 1 << 10
"""The maximum of keys that one call moves from a layer of dicts into the one below."""

SHARE: Final = 8
"""Batches smaller than this fraction of the keys in dicts are also processed key by key."""


class HeapTable(Table):
    """The interface of all tables on heap for snapshots and compactions."""

    @abstractmethod
    def freeze(self) -> FrozenTable:
        """The current table, unaffected by later changes."""

    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, in the order of their bytes."""
        frozen = self.freeze()
        yield from frozen.rows(groups)
        frozen.release()

    @abstractmethod
    def shrink(self) -> None:
        """Release the memory of removed data."""

    @abstractmethod
    def usage(self) -> Usage:
        """The bytes of the table."""


class ItemsTable(HeapTable):
    """The common part of lists and maps: `{namespace: {key: list or map}}`, and columns.

    A snapshot takes the dicts themselves: from then on, they are layers that do not change. Changes
    go into new dicts above them, in which None marks removed keys; a list or map is copied at its
    first change. When no snapshot is left, layers are merged into one.

    Attributes:
        columns: lists and maps that are in no dict.
    """

    columns: HeapChains

    def __init__(self, keys: KeyLayout, layout: ValueLayout, columns: HeapChains) -> None:
        """A table without dicts."""
        self.layout, self.key_layout = layout, keys
        self.columns = columns
        self._spaces: Front = {None: {}}
        self._layers: list[Front] = []
        self._held: list[Held] = []

    # -------------------------------------------------------------- one key

    def in_dicts(self, key: Any, namespace: Any) -> Any:
        """The list or map of a key in dicts, read-only; None if there is none."""
        space = self._spaces.get(namespace)
        found = None if space is None else space.get(key)
        return self.in_layers(key, namespace) if found is None and self._layers else found

    def in_layers(self, key: Any, namespace: Any) -> Any:
        """`in_dicts` for keys that are not in the top layer."""
        self._fold()
        for front in (self._spaces, *self._layers[::-1]):
            space = front.get(namespace)
            if space is not None and key in space:
                return space[key]
        return None

    def _fold(self) -> None:
        """Move a part of the layers above the last one into it, if no snapshot holds it."""
        self._held = [held for held in self._held if not held.released]
        if self._held:
            return
        left, below, is_last = FOLD, self._layers[-1], len(self._layers) == 1
        for namespace, space in self._spaces.items():
            under = below.setdefault(namespace, {})
            while space and left:
                key, items = space.popitem()
                left -= 1
                if items is None and is_last:
                    under.pop(key, None)
                else:
                    under[key] = items
        if left:
            spaces = self._layers.pop()
            self._spaces = {name: space for name, space in spaces.items() if space or name is None}

    def found(self, key: Any, namespace: Any) -> Any:
        """The list or map of a key, read-only; None if there is none."""
        if (items := self.in_dicts(key, namespace)) is not None:
            return items
        number = self._in_columns(key, namespace)
        return None if number == ABSENT else self._unpacked(number)

    def _in_columns(self, key: Any, namespace: Any) -> int:
        if not self.columns.index.live:
            return ABSENT
        return self.columns.find_one(self.key_layout.key.encode(key), namespace)

    @abstractmethod
    def _unpacked(self, number: int, /) -> Any:
        """The list or map of a key in the columns."""

    def mine(self, key: Any, namespace: Any) -> Any:
        """The list or map of a key for changes: it is in the dicts and in no snapshot."""
        space = self._spaces.get(namespace)
        items = None if space is None else space.get(key)
        if items is not None:
            return items
        if self._layers and (shared := self.in_layers(key, namespace)) is not None:
            items = shared.copy()
        else:
            number = self._in_columns(key, namespace)
            if number == ABSENT:
                return None
            items = self._unpacked(number)
            self.columns.clear(np.array([number]))
        self.place(key, namespace, items)
        return items

    def place(self, key: Any, namespace: Any, items: Any) -> None:
        """Put a list or map of a key, which nothing else refers to, into the dicts."""
        space = self._spaces.get(namespace)
        if space is None:
            space = self._spaces[namespace] = {}
        space[key] = items

    def clear(self, key: Any, namespace: Any) -> None:
        """Remove everything of the key in the namespace."""
        if self.in_dicts(key, namespace) is None:
            if (number := self._in_columns(key, namespace)) != ABSENT:
                self.columns.clear(np.array([number]))
        elif self._layers:
            self.place(key, namespace, None)
        else:
            space = self._spaces[namespace]
            del space[key]
            if namespace is not None and not space:
                del self._spaces[namespace]

    def _all_dicts(self) -> Front:
        """The content of all dicts; read-only if there are layers."""
        if not self._layers:
            return self._spaces
        merged = merged_fronts(self._fronts())
        return {
            name: {key: items for key, items in space.items() if items is not None}
            for name, space in merged.items()
        }

    # -------------------------------------------------------------- many keys

    def is_small(self, keys: KeyBatch) -> bool:
        """Whether to process a batch key by key; if not, moves everything into the columns."""
        count = sum([len(space) for front in self._fronts() for space in front.values()])
        if len(keys) < max(SMALL, count // SHARE):
            return True
        if count:
            self.settle()
        return False

    def settle(self) -> None:
        """Move everything into the columns."""
        self.columns.compact_if_sparse()
        for namespace, space in self._all_dicts().items():
            left = iter(space.items())
            while some := list(islice(left, AT_ONCE)):
                self._pack(self.batch_of([key for key, _ in some]), namespace, some)
        self._spaces, self._layers = {None: {}}, []

    def _fronts(self) -> list[Front]:
        return [*self._layers, self._spaces]

    @abstractmethod
    def _pack(self, keys: KeyBatch, namespace: Any, some: list[tuple[Any, Any]], /) -> None:
        """Put lists or maps of keys into the columns, which do not have these keys."""

    def clear_many(self, keys: KeyBatch, namespace: Any) -> None:
        """`clear` of many keys."""
        if self.is_small(keys):
            for key in keys.keys:
                self.clear(key, namespace)
        else:
            self.columns.clear(self.columns.find(keys, namespace))
            self.columns.compact_if_sparse()

    # -------------------------------------------------------------- the whole table

    def size(self) -> int:
        """Keys of all namespaces, including those with an empty map."""
        return sum(map(len, self._all_dicts().values())) + self.columns.index.live

    def keys(self, namespace: Any) -> Iterator[Any]:
        """Keys with stored data in the namespace."""
        in_columns = self.columns.named(namespace, self.key_layout.key)
        return iter([*self._all_dicts().get(namespace, ()), *in_columns])

    def addresses(self) -> list[tuple[Any, Any]]:
        """(key, namespace) of the content of dicts."""
        return [(key, name) for name, space in self._all_dicts().items() for key in space]

    def walk(self) -> Walk:
        """A walk from the beginning."""
        return ItemsWalk(self)

    def stamps(self) -> Iterator[Positions]:
        """The timestamps of all elements or entries."""
        yield self.columns.stamps()
        dicts = self.addresses()
        stamps = [item[1] for address in dicts for item in self.items(*address) if item]
        yield np.array(stamps, dtype=np.int64)

    @abstractmethod
    def items(self, key: Any, namespace: Any) -> Collection[Stored]:
        """The elements or values of a key."""

    @abstractmethod
    def expel(self, key: Any, namespace: Any, horizon_ms: int, removed: Removed | None) -> int:
        """Remove values of one key up to the horizon; return their number."""

    def user_keys_of(self, _numbers: Any, /) -> list[Any]:
        """The user keys of items in the columns, in a map."""
        return []

    def shrink(self) -> None:
        """Rebuild dicts and columns in the size of their content."""
        if not self._layers:  # layers may be shared with a snapshot
            self._spaces = {name: dict(space) for name, space in self._spaces.items()}
        self.columns.compact()

    def usage(self) -> Usage:
        """The columns and the dicts; a dict that lost most keys is as large as before."""
        sizes = [
            (sys.getsizeof(space), len(space))
            for front in self._fronts()
            for space in front.values()
        ]
        dead = sum([max(size - DICT_BYTES * (count + 8), 0) for size, count in sizes])
        return self.columns.usage() + Usage(sum([size for size, _ in sizes]), dead)

    def freeze(self) -> FrozenTable:
        """The current table: dicts become a layer, columns are copied before they change."""
        if any(self._spaces.values()):
            self._layers.append(self._spaces)
            self._spaces = {None: {}}
        frozen = self._frozen(self.key_layout, self.layout, self._layers, self.columns.freeze())
        self._held = [*(held for held in self._held if not held.released), frozen]
        return frozen

    @property
    @abstractmethod
    def _frozen(self) -> type[FrozenChains]:
        """The class of frozen tables of this kind."""

    def load(self, rows: Iterable[Row]) -> None:
        """Add rows of another table."""
        split = self.key_layout.split
        for row in rows:
            _, key, namespace, rest = split(row.key)
            space = self._spaces.setdefault(namespace, {})
            self._take(space, key, row.value, rest)

    @abstractmethod
    def _take(self, space: Space, key: Any, value: bytes, rest: bytes, /) -> None:
        """Add one row."""

"""Lists and maps on heap, what they share: dicts for single calls, columns for batches.

A key's list or map is in one of two places. Single calls find and change it in dicts, where they
are fast; a batch moves what is in dicts into columns first, where a million keys are no objects. A
single call that changes what is in the columns takes that one key out again; reads leave it there.
"""

import sys
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import numpy as np

from idlestate.backends.runs.byte_index import ABSENT
from idlestate.state.batch_values import Stored
from idlestate.state.heap.chains import HeapChains
from idlestate.state.heap.frozen_rows import (
    Front,
    FrozenChains,
    FrozenTable,
    merged_fronts,
)
from idlestate.state.heap.heap_keys import AT_ONCE
from idlestate.state.heap.held_columns import Held
from idlestate.state.heap.items_walk import ItemsWalk
from idlestate.state.key_batch import KeyBatch
from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.row_keys import KeyLayout
from idlestate.state.rows import ValueLayout
from idlestate.state.table import Removed, Row, Table, Walk
from idlestate.state.usage import Usage

Space = dict[Any, Any]

DICT_BYTES: Final = 110
"""A dict's bytes for each key, at most, while it only grows."""

SMALL: Final = 16
"""Batches of fewer keys are done key by key."""

FOLD: Final = 1 << 10
"""Keys that one call moves from one layer of dicts into the one below, at most."""

SHARE: Final = 8
"""So are those of fewer keys than one in so many of the keys in dicts."""


class HeapTable(Table):
    """What snapshots and compactions ask of all tables on heap."""

    @abstractmethod
    def freeze(self) -> FrozenTable:
        """The table as it is now, unchanged by what comes."""

    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, in the order of their bytes."""
        frozen = self.freeze()
        yield from frozen.rows(groups)
        frozen.release()

    @abstractmethod
    def shrink(self) -> None:
        """Give the memory of what was removed back."""

    @abstractmethod
    def usage(self) -> Usage:
        """How much room the table takes."""


class ItemsTable(HeapTable):
    """What lists and maps share: `{namespace: {key: list or map}}`, and columns.

    A snapshot takes the dicts as they are: from then on they are layers that do not change. What
    changes goes into new dicts above them, where None stands for what is gone; a list or map is
    copied when it is first changed. When no snapshot is left, layers are folded into one.

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
        """The list or map of a key in dicts, not to be changed; None when there is none."""
        space = self._spaces.get(namespace)
        found = None if space is None else space.get(key)
        return self.in_layers(key, namespace) if found is None and self._layers else found

    def in_layers(self, key: Any, namespace: Any) -> Any:
        """`in_dicts` for what is not in the uppermost ones, when there are layers."""
        self._fold()
        for front in (self._spaces, *self._layers[::-1]):
            space = front.get(namespace)
            if space is not None and key in space:
                return space[key]
        return None

    def _fold(self) -> None:
        """Move a part of what is above the last layer into it, when no snapshot holds it."""
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
        """The list or map of a key as it is, not to be changed; None when there is none."""
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
        """The list or map of a key, to be changed: it is in the dicts and in no snapshot."""
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
        """Have a list or map of a key in the dicts that nothing else holds."""
        space = self._spaces.get(namespace)
        if space is None:
            space = self._spaces[namespace] = {}
        space[key] = items

    def clear(self, key: Any, namespace: Any) -> None:
        """Remove all that the key has in the namespace."""
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
        """What is in dicts, whatever the layers; not to be changed when there are any."""
        if not self._layers:
            return self._spaces
        merged = merged_fronts(self._fronts())
        return {
            name: {key: items for key, items in space.items() if items is not None}
            for name, space in merged.items()
        }

    # -------------------------------------------------------------- many keys

    def is_small(self, keys: KeyBatch) -> bool:
        """Whether a batch is done key by key; else all is in the columns now."""
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
        """Put lists or maps of keys into the columns, which have none of theirs."""

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
        """Keys over all namespaces, those with an empty map included."""
        return sum(map(len, self._all_dicts().values())) + self.columns.index.live

    def keys(self, namespace: Any) -> Iterator[Any]:
        """Keys that have something in the namespace."""
        in_columns = self.columns.named(namespace, self.key_layout.key)
        return iter([*self._all_dicts().get(namespace, ()), *in_columns])

    def addresses(self) -> list[tuple[Any, Any]]:
        """(key, namespace) of what is in dicts."""
        return [(key, name) for name, space in self._all_dicts().items() for key in space]

    def walk(self) -> Walk:
        """A walk from the beginning."""
        return ItemsWalk(self)

    @abstractmethod
    def items(self, key: Any, namespace: Any) -> Collection[Stored]:
        """The elements or values of a key."""

    @abstractmethod
    def expel(self, key: Any, namespace: Any, horizon_ms: int, removed: Removed | None) -> int:
        """Remove what is not younger than the horizon of one key; how much that was."""

    def user_keys_of(self, _numbers: Any, /) -> list[Any]:
        """The user keys of items in the columns, in a map."""
        return []

    def shrink(self) -> None:
        """Make dicts and columns anew, as large as what they hold."""
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
        """The table as it is now: dicts become a layer, columns are copied before they change."""
        if any(self._spaces.values()):
            self._layers.append(self._spaces)
            self._spaces = {None: {}}
        frozen = self._frozen(self.key_layout, self.layout, self._layers, self.columns.freeze())
        self._held = [*(held for held in self._held if not held.released), frozen]
        return frozen

    @property
    @abstractmethod
    def _frozen(self) -> type[FrozenChains]:
        """What holds tables of this kind."""

    def load(self, rows: Iterable[Row]) -> None:
        """Take rows over that another table gave, into their places."""
        split = self.key_layout.split
        for row in rows:
            _, key, namespace, rest = split(row.key)
            space = self._spaces.setdefault(namespace, {})
            self._take(space, key, row.value, rest)

    @abstractmethod
    def _take(self, space: Space, key: Any, value: bytes, rest: bytes, /) -> None:
        """Put one row into its place."""

"""Lists and maps on heap, what they share: dicts for single calls, columns for batches.

A key's list or map is in one of two places. Single calls find and change it in dicts, where they
are fast; a batch moves what is in dicts into columns first, where a million keys are no objects. A
single call that changes what is in the columns takes that one key out again; reads leave it there.
"""

import sys
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Final, Self

import numpy as np

from idlestate.backends.keyed.byte_index import ABSENT
from idlestate.backends.keyed.cells import Stored
from idlestate.backends.keyed.heap_chains import HeapChains
from idlestate.backends.keyed.heap_items_walk import ItemsWalk
from idlestate.backends.keyed.heap_keys import AT_ONCE
from idlestate.backends.keyed.key_batch import KeyBatch
from idlestate.backends.keyed.key_groups import KeyGroupRange
from idlestate.backends.keyed.row_keys import KeyLayout
from idlestate.backends.keyed.rows import ValueLayout
from idlestate.backends.keyed.table import Removed, Row, Table, Walk
from idlestate.backends.keyed.usage import Usage

Space = dict[Any, Any]

DICT_BYTES: Final = 110
"""A dict's bytes for each key, at most, while it only grows."""

SMALL: Final = 16
"""Batches of fewer keys are done key by key."""

SHARE: Final = 8
"""So are those of fewer keys than one in so many of the keys in dicts."""


class HeapTable(Table):
    """What snapshots and compactions ask of all tables on heap."""

    @abstractmethod
    def frozen_copy(self) -> Self:
        """The table as it is now, unchanged by what comes; only its rows are asked for."""

    @abstractmethod
    def thaw(self) -> None:
        """No snapshot holds the table any more."""

    @abstractmethod
    def shrink(self) -> None:
        """Give the memory of what was removed back."""

    @abstractmethod
    def usage(self) -> Usage:
        """How much room the table takes."""


class ItemsTable(HeapTable):
    """What lists and maps share: `{namespace: {key: list or map}}`, and columns.

    A snapshot copies the columns and the dicts, not what the dicts hold, and freezes that: a list
    or map is copied when it is first changed after the snapshot. Values are never changed in place.

    Attributes:
        columns: lists and maps that are in no dict.
    """

    columns: HeapChains

    def __init__(
        self,
        keys: KeyLayout,
        layout: ValueLayout,
        columns: HeapChains,
        spaces: dict[Any, Space] | None,
    ) -> None:
        """A table of what the columns and these dicts have."""
        self.layout, self.key_layout = layout, keys
        self.columns = columns
        self._spaces = {None: {}} if spaces is None else spaces
        self._frozen = False
        self._own: set[tuple[Any, Any]] = set()

    # -------------------------------------------------------------- one key

    def found(self, key: Any, namespace: Any) -> Any:
        """The list or map of a key as it is, not to be changed; None when there is none."""
        space = self._spaces.get(namespace)
        if space is not None and (items := space.get(key)) is not None:
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
        if items is None:
            number = self._in_columns(key, namespace)
            if number == ABSENT:
                return None
            items = self._unpacked(number)
            self.columns.clear(np.array([number]))
            self.place(key, namespace, items)
        elif self._frozen and (key, namespace) not in self._own:
            items = items.copy()
            self.place(key, namespace, items)
        return items

    def place(self, key: Any, namespace: Any, items: Any) -> None:
        """Have a list or map of a key in the dicts that nothing else holds."""
        space = self._spaces.get(namespace)
        if space is None:
            space = self._spaces[namespace] = {}
        space[key] = items
        if self._frozen:
            self._own.add((key, namespace))

    def clear(self, key: Any, namespace: Any) -> None:
        """Remove all that the key has in the namespace."""
        space = self._spaces.get(namespace)
        if space is not None and space.pop(key, None) is not None:
            if namespace is not None and not space:
                del self._spaces[namespace]
        elif (number := self._in_columns(key, namespace)) != ABSENT:
            self.columns.clear(np.array([number]))

    # -------------------------------------------------------------- many keys

    def is_small(self, keys: KeyBatch) -> bool:
        """Whether a batch is done key by key; else all is in the columns now."""
        count = sum(map(len, self._spaces.values()))
        if len(keys) < max(SMALL, count // SHARE):
            return True
        if count:
            self.settle()
        return False

    def settle(self) -> None:
        """Move everything into the columns."""
        self.columns.compact_if_sparse()
        for namespace, space in self._spaces.items():
            while some := list(islice(space.items(), AT_ONCE)):
                self._pack(self.batch_of([key for key, _ in some]), namespace, some)
                for key, _ in some:
                    del space[key]
        self._spaces, self._own = {None: {}}, set()

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
        return sum(map(len, self._spaces.values())) + self.columns.index.live

    def keys(self, namespace: Any) -> Iterator[Any]:
        """Keys that have something in the namespace."""
        in_columns = self.columns.named(namespace, self.key_layout.key)
        return iter([*self._spaces.get(namespace, ()), *in_columns])

    def addresses(self) -> list[tuple[Any, Any]]:
        """(key, namespace) of what is in dicts."""
        return [(key, name) for name, space in self._spaces.items() for key in space]

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
        self._spaces = {name: dict(space) for name, space in self._spaces.items()}
        self.columns.compact()

    def usage(self) -> Usage:
        """The columns and the dicts; a dict that lost most keys is as large as before."""
        sizes = [(sys.getsizeof(space), len(space)) for space in self._spaces.values()]
        dead = sum([max(size - DICT_BYTES * (count + 8), 0) for size, count in sizes])
        return self.columns.usage() + Usage(sum([size for size, _ in sizes]), dead)

    def frozen_copy(self) -> Self:
        """The table as it is now, unchanged by what comes."""
        self._frozen, self._own = True, set()
        spaces = {name: dict(space) for name, space in self._spaces.items()}
        return self._like(self.columns.copy(), spaces)

    @abstractmethod
    def _like(self, columns: Any, spaces: dict[Any, Space], /) -> Self:
        """A table for the same state."""

    def thaw(self) -> None:
        """No snapshot holds the table any more."""
        self._frozen, self._own = False, set()

    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, in the order of their bytes."""
        prefix, group_of = self.key_layout.prefix, self.key_layout.group_of
        found = [
            (prefix(key, namespace, group), items)
            for namespace, space in self._spaces.items()
            for key, items in space.items()
            if (group := group_of(key)) in groups
        ]
        first, last = groups.first.to_bytes(2, "big"), groups.last.to_bytes(2, "big")
        for namespace, numbers in self.columns.portions():
            keys = KeyBatch(self.key_layout.key, self.columns.keys(numbers))
            prefixes = self.key_layout.prefixes(keys, namespace).to_pylist()
            each = zip(prefixes, numbers.tolist(), strict=True)
            found += [pair for pair in each if first <= pair[0][:2] <= last]
        found.sort(key=lambda each: each[0])
        for start, items in found:
            yield from self._to_rows(start, self._unpacked(items) if type(items) is int else items)

    @abstractmethod
    def _to_rows(self, prefix: bytes, items: Any) -> Iterator[Row]:
        """The rows of what one key has."""

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

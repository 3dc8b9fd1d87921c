"""One stored value per key on heap: new ones in dicts, the others in columns.

Single calls are fastest on plain dicts, batches on columns, and only columns can keep many millions
of keys in memory. So writes of single calls stay in dicts, up to `FRONT` keys, and move into the
columns when there are more, or with the next batch.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import numpy as np

from idlestate.backends.runs.byte_arrays import Flags, Positions
from idlestate.state.batch_values import Cells, Column, Stored
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.heap.frozen_rows import Front, FrozenSingles, FrozenTable
from idlestate.state.heap.heap_items import HeapTable
from idlestate.state.heap.sweep_of_values import SingleWalk
from idlestate.state.heap.value_columns import HeapColumns
from idlestate.state.key_batch import KeyBatch
from idlestate.state.row_keys import KeyLayout
from idlestate.state.table import Row, SingleTable, Walk
from idlestate.state.usage import Usage

FRONT: Final = 1 << 14
"""Keys in dicts before they move into columns."""

SMALL: Final = 16
"""Smaller batches are not worth array steps."""

_ABSENT: Final = object()
_GONE: Final = object()  # in the front: the columns have the key, but it was removed


class HeapSingleTable(HeapTable, SingleTable):
    """One stored value per key."""

    def __init__(self, keys: KeyLayout, layout: ValueLayout) -> None:
        """An empty table."""
        self.key_layout, self.layout = keys, layout
        self.front: Front = {None: {}}
        self.columns = HeapColumns(layout)
        self._in_front = 0

    # -------------------------------------------------------------- one key

    def get(self, key: Any, namespace: Any) -> Stored:
        """The stored value; None if there is none."""
        space = self.front.get(namespace)
        if space is not None and (found := space.get(key, _ABSENT)) is not _ABSENT:
            return None if found is _GONE else found
        if self.columns.index.live:
            return self.columns.get(self.key_layout.key.encode(key), namespace)
        return None

    def put(self, key: Any, namespace: Any, stored: Stored) -> None:
        """Store; None is stored as an entry without a value, as in Flink."""
        self.place(key, namespace, self.layout.normal(stored))

    def place(self, key: Any, namespace: Any, item: Any) -> None:
        """`put` of what `ValueLayout.normal` returned."""
        space = self.front.get(namespace)
        if space is None:
            space = self.front[namespace] = {}
        before = len(space)
        space[key] = item
        if len(space) != before:
            self._in_front += 1
            if self._in_front > FRONT:
                self.settle()

    def clear(self, key: Any, namespace: Any) -> None:
        """Remove the key's value in the namespace."""
        columns = self.columns
        if columns.index.live and columns.has(self.key_layout.key.encode(key), namespace):
            self.place(key, namespace, _GONE)
            return
        space = self.front.get(namespace)
        if space is not None and space.pop(key, _ABSENT) is not _ABSENT:
            self._in_front -= 1
            if namespace is not None and not space:
                del self.front[namespace]

    # -------------------------------------------------------------- many keys

    def get_many(self, keys: KeyBatch, namespace: Any) -> Cells:
        """`get` of many keys."""
        if len(keys) < SMALL:
            stored = [self.get(key, namespace) for key in keys.keys]
            return Cells.of(stored, self.layout.value.kind, stamped=self.layout.stamped)
        self.settle()
        return self.columns.fetch(keys, namespace)

    def put_many(
        self, keys: KeyBatch, namespace: Any, values: Column, has: Flags, stamp_ms: int
    ) -> None:
        """Store a value, or `clear` if there is none."""
        if len(keys) >= SMALL:
            self.settle()
            self.columns.put(keys, namespace, values, has, stamp_ms)
            return
        stamped = self.layout.stamped
        for key, value, each in zip(keys.keys, values.tolist(), has.tolist(), strict=True):
            if each:
                self.place(key, namespace, (value, stamp_ms) if stamped else value)
            else:
                self.clear(key, namespace)

    def restamp(self, keys: KeyBatch, namespace: Any, found: Cells, stamp_ms: int) -> None:
        """Set a new timestamp for values that were just found."""
        if len(keys) >= SMALL:
            self.settle()
            self.columns.restamp(keys, namespace, stamp_ms)
            return
        for key, value in zip(keys.keys, found.objects(), strict=True):
            self.place(key, namespace, (value, stamp_ms))

    def clear_many(self, keys: KeyBatch, namespace: Any) -> None:
        """`clear` of many keys."""
        if len(keys) >= SMALL:
            self.settle()
            self.columns.clear(keys, namespace)
            return
        for key in keys.keys:
            self.clear(key, namespace)

    # -------------------------------------------------------------- the whole table

    def settle(self) -> None:
        """Move everything into the columns."""
        if not self._in_front:
            return
        for namespace, space in self.front.items():
            kept = [each for each in space.items() if each[1] is not _GONE]
            if len(kept) < len(space):
                gone = [key for key, stored in space.items() if stored is _GONE]
                self.columns.clear(self.batch_of(gone), namespace)
            if kept:
                keys = self.batch_of([key for key, _ in kept])
                self._store(keys, namespace, [stored for _, stored in kept])
        self.front, self._in_front = {None: {}}, 0

    def in_front(self, numbers: Positions) -> int:
        """The number of these rows of the columns that are outdated by dicts."""
        if not self._in_front or not len(numbers):
            return 0
        columns, nothing = self.columns, dict[Any, Any]()
        names = columns.spaces.names
        keys = KeyBatch(self.key_layout.key, columns.keys(numbers)).keys
        spaces = [names[each] for each in columns.index.spaces[numbers].tolist()]
        return sum(
            key in self.front.get(space, nothing) for key, space in zip(keys, spaces, strict=True)
        )

    def _store(self, keys: KeyBatch, namespace: Any, stored: list[Stored]) -> None:
        kind, stamped = self.layout.value.kind, self.layout.stamped
        cells = Cells.of(stored, kind, stamped=stamped)
        self.columns.store(keys, namespace, cells.values, cells.has, cells.stamps, cells.there)

    def size(self) -> int:
        """Keys of all namespaces."""
        self.settle()
        return self.columns.index.live

    def keys(self, namespace: Any) -> Iterator[Any]:
        """Keys with stored data in the namespace."""
        self.settle()
        # All of them now: the caller may remove keys during the iteration.
        return iter(self.columns.named(namespace, self.key_layout.key))

    def walk(self) -> Walk:
        """A walk from the beginning."""
        return SingleWalk(self)

    def stamps(self) -> Iterator[Positions]:
        """The timestamps of all values."""
        self.settle()
        yield self.columns.stamped(np.flatnonzero(self.columns.index.alive))[1]

    def shrink(self) -> None:
        """Rebuild the columns without removed keys."""
        self.settle()
        self.columns.compact()

    def usage(self) -> Usage:
        """The bytes of the columns."""
        self.settle()
        return self.columns.usage()

    def freeze(self) -> FrozenTable:
        """The current table: the small dicts are copied now, columns before they are written."""
        front = {namespace: dict(space) for namespace, space in self.front.items()}
        return FrozenSingles(self.key_layout, self.layout, front, self.columns.freeze(), _GONE)

    def load(self, rows: Iterable[Row]) -> None:
        """Add rows of another table."""
        left, split, decode = iter(rows), self.key_layout.split, self.layout.decode
        while some := list(islice(left, FRONT)):
            spaces: dict[Any, tuple[list[Any], list[Stored]]] = {}
            for row in some:
                _, key, namespace, _ = split(row.key)
                keys, stored = spaces.setdefault(namespace, ([], []))
                keys.append(key)
                stored.append(decode(row.value))
            for namespace, (keys, stored) in spaces.items():
                self._store(self.batch_of(keys), namespace, stored)

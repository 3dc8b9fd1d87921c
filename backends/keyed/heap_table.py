"""Lists and maps on heap, what they share: dicts, copied on write while a snapshot holds them."""

import sys
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Self

from idlestate.backends.keyed.cells import Stored
from idlestate.backends.keyed.key_batch import KeyBatch
from idlestate.backends.keyed.key_groups import KeyGroupRange
from idlestate.backends.keyed.row_keys import KeyLayout
from idlestate.backends.keyed.rows import ValueLayout
from idlestate.backends.keyed.table import Removed, Row, Table, Visit, Walk
from idlestate.backends.keyed.usage import Usage

Space = dict[Any, Any]

DICT_BYTES = 110
"""A dict's bytes for each key, at most, while it only grows."""


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


class DictTable(HeapTable):
    """What lists and maps share: `{namespace: {key: stored}}`.

    A snapshot copies the dicts, not what they hold, and freezes that: a list or map is copied
    when it is first changed after the snapshot. Values themselves are never changed in place.
    """

    def __init__(
        self, keys: KeyLayout, layout: ValueLayout, spaces: dict[Any, Space] | None = None
    ) -> None:
        """A table with these spaces, or with nothing in it."""
        self.layout = layout
        self.key_layout = keys
        self._spaces = {None: {}} if spaces is None else spaces
        self._frozen = False
        self._own: set[tuple[Any, Any]] = set()

    def size(self) -> int:
        """Keys over all namespaces, those with an empty map included."""
        return sum(map(len, self._spaces.values()))

    def clear(self, key: Any, namespace: Any) -> None:
        """Remove all that the key has in the namespace."""
        space = self._spaces.get(namespace)
        if space is not None:
            space.pop(key, None)
            self._prune(namespace, space)

    def _prune(self, namespace: Any, space: Space) -> None:
        if namespace is not None and not space:
            del self._spaces[namespace]

    def keys(self, namespace: Any) -> Iterator[Any]:
        """Keys that have something in the namespace."""
        return iter(list(self._spaces.get(namespace, ())))

    def addresses(self) -> Iterator[tuple[Any, Any]]:
        """(key, namespace) of all that is stored."""
        for namespace, space in list(self._spaces.items()):
            for key in list(space):
                yield key, namespace

    def clear_many(self, keys: KeyBatch, namespace: Any) -> None:
        """`clear` of many keys."""
        for key in keys.keys:
            self.clear(key, namespace)

    def walk(self) -> Walk:
        """A walk from the beginning."""
        return DictWalk(self)

    @abstractmethod
    def items(self, key: Any, namespace: Any) -> Collection[Stored]:
        """The elements or values of a key."""

    @abstractmethod
    def expel(self, key: Any, namespace: Any, horizon_ms: int, removed: Removed | None) -> int:
        """Remove what is not younger than the horizon of one key; how much that was."""

    def space(self, namespace: Any) -> Space:
        """The keys of a namespace; changes show, so nobody else may change it."""
        found = self._spaces.get(namespace)
        if found is None:
            found = self._spaces[namespace] = {}
        return found

    def shrink(self) -> None:
        """Make the dicts anew, as large as what they hold."""
        self._spaces = {name: dict(space) for name, space in self._spaces.items()}

    def usage(self) -> Usage:
        """The dicts themselves; a dict that lost most of its keys is as large as before."""
        sizes = [(sys.getsizeof(space), len(space)) for space in self._spaces.values()]
        dead = sum([max(size - DICT_BYTES * (count + 8), 0) for size, count in sizes])
        return Usage(sum([size for size, _ in sizes]), dead)

    def frozen_copy(self) -> Self:
        """The table as it is now, unchanged by what comes."""
        self._frozen, self._own = True, set()
        spaces = {name: dict(space) for name, space in self._spaces.items()}
        return type(self)(self.key_layout, self.layout, spaces)

    def thaw(self) -> None:
        """No snapshot holds the table any more."""
        self._frozen, self._own = False, set()

    def mine(self, key: Any, namespace: Any, space: Space) -> Any:
        """The list or map of a key, copied first when a snapshot holds it."""
        found = space.get(key)
        if self._frozen and found is not None and (key, namespace) not in self._own:
            found = space[key] = found.copy()
            self._own.add((key, namespace))
        return found

    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, in the order of their bytes."""
        prefix, group_of = self.key_layout.prefix, self.key_layout.group_of
        found = [
            (prefix(key, namespace, group), stored)
            for namespace, space in self._spaces.items()
            for key, stored in space.items()
            if (group := group_of(key)) in groups
        ]
        found.sort(key=lambda each: each[0])
        for start, stored in found:
            yield from self._to_rows(start, stored)

    @abstractmethod
    def _to_rows(self, prefix: bytes, stored: Any) -> Iterator[Row]:
        """The rows of what one key has."""

    def load(self, rows: Iterable[Row]) -> None:
        """Take rows over that another table gave, into their places."""
        split = self.key_layout.split
        for row in rows:
            _, key, namespace, rest = split(row.key)
            self._take(self.space(namespace), key, row.value, rest)

    @abstractmethod
    def _take(self, space: Space, key: Any, value: bytes, rest: bytes, /) -> None:
        """Put one row into its place."""


class DictWalk(Walk):
    """Over the keys that were there when it began."""

    def __init__(self, table: DictTable) -> None:
        """A walk from the beginning."""
        self._table = table
        self._left = table.addresses()
        self._removed = 0

    def visit(self, limit: int, horizon_ms: int, removed: Removed | None = None) -> Visit:
        """Look at up to this many keys."""
        visit = Visit()
        for key, namespace in islice(self._left, limit):
            visit.seen += 1
            stamps = [item[1] for item in self._table.items(key, namespace) if item]
            if stamps and min(stamps) <= horizon_ms:
                visit.removed += self._table.expel(key, namespace, horizon_ms, removed)
                stamps = [stamp for stamp in stamps if stamp > horizon_ms]
            if stamps:
                visit.oldest_ms = min(visit.oldest_ms, *stamps)
        self._removed += visit.removed
        visit.done = visit.seen < limit
        if visit.done and self._removed > 3 * self._table.size():
            self._table.shrink()
        return visit

"""Tables on heap: plain dicts, copied on write while a snapshot holds them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from idlestate.backends.keyed.key_groups import KeyGroupRange
from idlestate.backends.keyed.rows import MERGED, KeyLayout, Stored, ValueLayout
from idlestate.backends.keyed.table import ListTable, MapTable, Row, SingleTable, Table

Space = dict[Any, Any]


class HeapTable(Table):
    """What the kinds share: `{namespace: {key: stored}}`.

    A snapshot copies the dicts, not what they hold, and freezes that: a list or map is copied
    when it is first changed after the snapshot. Values themselves are never changed in place.
    """

    def __init__(
        self, keys: KeyLayout, layout: ValueLayout, spaces: dict[Any, Space] | None = None
    ) -> None:
        """A table with these spaces, or with nothing in it."""
        self.layout = layout
        self._keys = keys
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

    def space(self, namespace: Any) -> Space:
        """The keys of a namespace; changes show, so nobody else may change it."""
        found = self._spaces.get(namespace)
        if found is None:
            found = self._spaces[namespace] = {}
        return found

    def shrink(self) -> None:
        """Make the dicts anew, as large as what they hold."""
        self._spaces = {name: dict(space) for name, space in self._spaces.items()}

    def frozen_copy(self) -> "HeapTable":
        """The table as it is now, unchanged by what comes."""
        self._frozen, self._own = True, set()
        spaces = {name: dict(space) for name, space in self._spaces.items()}
        return type(self)(self._keys, self.layout, spaces)

    def thaw(self) -> None:
        """No snapshot holds the table any more."""
        self._frozen, self._own = False, set()

    def _mine(self, key: Any, namespace: Any, space: Space) -> Any:
        """The list or map of a key, copied first when a snapshot holds it."""
        found = space.get(key)
        if self._frozen and found is not None and (key, namespace) not in self._own:
            found = space[key] = found.copy()
            self._own.add((key, namespace))
        return found

    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, in the order of their bytes."""
        prefix, group_of = self._keys.prefix, self._keys.group_of
        found = [
            (prefix(key, namespace, group), stored)
            for namespace, space in self._spaces.items()
            for key, stored in space.items()
            if (group := group_of(key)) in groups
        ]
        found.sort(key=lambda each: each[0])
        for start, stored in found:
            yield from self._to_rows(start, stored)

    def _to_rows(self, prefix: bytes, stored: Any) -> Iterator[Row]:
        raise NotImplementedError

    def load(self, rows: Iterable[Row]) -> None:
        """Take rows over that another table gave, into their places."""
        split = self._keys.split
        for row in rows:
            _, key, namespace, rest = split(row.key)
            self._take(self.space(namespace), key, row.value, rest)

    def _take(self, space: Space, key: Any, value: bytes, rest: bytes, /) -> None:
        raise NotImplementedError


class HeapSingleTable(HeapTable, SingleTable):
    """One stored value per key."""

    def get(self, key: Any, namespace: Any) -> Stored:
        """What is stored, None when nothing is."""
        space = self._spaces.get(namespace)
        return None if space is None else space.get(key)

    def put(self, key: Any, namespace: Any, stored: Stored) -> None:
        """Store; None stays as an entry without a value, as in Flink."""
        space = self._spaces.get(namespace)
        if space is None:
            space = self.space(namespace)
        space[key] = stored

    def get_many(self, keys: Sequence[Any], namespace: Any) -> list[Stored]:
        """`get` of many keys."""
        space = self._spaces.get(namespace)
        return [None] * len(keys) if space is None else list(map(space.get, keys))

    def put_many(self, keys: Sequence[Any], namespace: Any, stored: Sequence[Stored]) -> None:
        """`put` of many keys, or `clear` where nothing is given."""
        self.space(namespace).update(zip(keys, stored, strict=True))
        if None in stored:
            space = self.space(namespace)
            self.clear_many([key for key in keys if space.get(key) is None], namespace)

    def clear_many(self, keys: Sequence[Any], namespace: Any) -> None:
        """`clear` of many keys."""
        space = self._spaces.get(namespace)
        if space is not None:
            for key in keys:
                space.pop(key, None)
            self._prune(namespace, space)

    def _to_rows(self, prefix: bytes, stored: Any) -> Iterator[Row]:
        yield Row(prefix, self.layout.encode(stored))

    def _take(self, space: Space, key: Any, value: bytes, _rest: bytes, /) -> None:
        space[key] = self.layout.decode(value)


class HeapListTable(HeapTable, ListTable):
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
        found = self._mine(key, namespace, space)
        if found is None:
            self.put(key, namespace, list(items))
        else:
            found.extend(items)

    def append_many(
        self, keys: Sequence[Any], namespace: Any, items: Sequence[list[Stored]]
    ) -> None:
        """`append` for many keys."""
        for key, each in zip(keys, items, strict=True):
            self.append(key, namespace, each)

    def _to_rows(self, prefix: bytes, stored: Any) -> Iterator[Row]:
        yield Row(prefix + MERGED, self.layout.encode_items(stored))

    def _take(self, space: Space, key: Any, value: bytes, _rest: bytes, /) -> None:
        # A row of appends comes behind the row of the merged list.
        space.setdefault(key, []).extend(self.layout.decode_items(value))


class HeapMapTable(HeapTable, MapTable):
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
        found = self._mine(key, namespace, space)
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
        found = self._mine(key, namespace, space)
        found.pop(user_key, None)
        if not found:
            self.clear(key, namespace)

    def discard(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry as an iterator does: an empty map stays."""
        space = self._spaces.get(namespace)
        if space is not None and key in space:
            self._mine(key, namespace, space).pop(user_key, None)

    def user_keys(self, key: Any, namespace: Any) -> list[Any]:
        """Keys of the entries."""
        return list(self._map(key, namespace))

    def is_empty(self, key: Any, namespace: Any) -> bool:
        """Whether nothing is stored, expired or not."""
        return not self._map(key, namespace)

    def get_many(
        self, keys: Sequence[Any], namespace: Any, user_keys: Sequence[Any]
    ) -> list[Stored]:
        """`get` of many entries."""
        space = self._spaces.get(namespace, {})
        nothing: dict[Any, Stored] = {}
        return [
            space.get(key, nothing).get(user_key)
            for key, user_key in zip(keys, user_keys, strict=True)
        ]

    def put_many(
        self,
        keys: Sequence[Any],
        namespace: Any,
        user_keys: Sequence[Any],
        stored: Sequence[Stored],
    ) -> None:
        """Set one entry for each of many keys."""
        for key, user_key, each in zip(keys, user_keys, stored, strict=True):
            self.put_all(key, namespace, {user_key: each})

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

"""A map per key."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from idlestate.state.batch_values import as_column
from idlestate.state.descriptors import MapStateDescriptor
from idlestate.state.errors import IteratorStateError, NullValueError, StateTypeError
from idlestate.state.key_batch import KeyBatch
from idlestate.state.key_context import KeyContext
from idlestate.state.state import Many, State, check_pairs
from idlestate.state.table import MapTable
from idlestate.state.ttl_layer import Ttl


class MapEntry:
    """One entry of an iteration. Setting `value` writes it to state, except with a TTL."""

    __slots__ = ("_value", "_write", "key")

    def __init__(self, key: Any, value: Any, write: Callable[[Any], None]) -> None:
        """The entry; `write` stores a new value."""
        self.key = key
        self._value = value
        self._write = write

    @property
    def value(self) -> Any:
        """The value."""
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value
        self._write(value)


class MapState(State[MapTable]):
    """`put`, `put_all`, `get`, `contains`, `remove`, `is_empty`, `clear`, and iterations."""

    def __init__(
        self,
        descriptor: MapStateDescriptor,
        table: MapTable,
        context: KeyContext,
        ttl: Ttl | None = None,
    ) -> None:
        """The state over its table."""
        super().__init__(descriptor, table, context, ttl)
        assert table.layout.user_key is not None
        self._normal_key = table.layout.user_key.normal

    def get(self, user_key: Any) -> Any:
        """The entry's value; None if there is none."""
        if user_key is not None:
            user_key = self._normal_key(user_key)
        return self.table.get(self._key, self.namespace, user_key)

    def put(self, user_key: Any, value: Any) -> None:
        """Set an entry."""
        if value is not None:
            value = self._normal(value)
        if user_key is not None:
            user_key = self._normal_key(user_key)
        self.table.put_all(self._key, self.namespace, {user_key: value})

    def put_all(self, entries: Mapping[Any, Any] | None) -> None:
        """Set entries, all or none. None does nothing on RocksDB, is refused on heap (Flink)."""
        if entries is None:
            if not self.table.refuses_null:
                raise NullValueError(f"map state {self.name}: put_all was given None, not a map")
            return
        self.table.put_all(self._key, self.namespace, self._all_normal(entries))

    def _all_normal(self, entries: Mapping[Any, Any]) -> dict[Any, Any]:
        if not isinstance(entries, Mapping):
            raise StateTypeError(
                f"map state {self.name}: {entries!r} is not a mapping: pass a dict"
            )
        normal, normal_key = self._normal, self._normal_key
        return {
            None if key is None else normal_key(key): None if value is None else normal(value)
            for key, value in entries.items()
        }

    def contains(self, user_key: Any) -> bool:
        """Whether there is an entry, also one whose value is None."""
        if user_key is not None:
            user_key = self._normal_key(user_key)
        return self.table.has(self._key, self.namespace, user_key)

    def remove(self, user_key: Any) -> None:
        """Remove an entry."""
        if user_key is not None:
            user_key = self._normal_key(user_key)
        self.table.remove(self._key, self.namespace, user_key)

    def is_empty(self) -> bool:
        """Whether no entry is stored."""
        return self.table.is_empty(self._key, self.namespace)

    def iterator(self) -> "MapIterator":
        """The entries; each is looked up during the iteration."""
        return MapIterator(self, self._key, self.namespace)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """(user key, value) of the entries."""
        return ((entry.key, entry.value) for entry in self.iterator())

    def keys(self) -> Iterator[Any]:
        """The user keys; an iteration with the same effects as `entries`."""
        return (entry.key for entry in self.iterator())

    def values(self) -> Iterator[Any]:
        """The values; an iteration with the same effects as `entries`."""
        return (entry.value for entry in self.iterator())

    def get_many(self, keys: Many, user_keys: Many) -> pa.Array:
        """`get` of one entry for each key, as an Arrow array of the value type."""
        batch, entries = self._addressed(keys, user_keys)
        return self.table.get_many(batch, self.namespace, entries).visible(self._type)

    def put_many(self, keys: Many, user_keys: Many, values: Many) -> None:
        """`put` of one entry for each key, all or none."""
        self._put(keys, user_keys, values, 0)

    def _put(self, keys: Many, user_keys: Many, values: Many, stamp_ms: int) -> None:
        batch, entries = self._addressed(keys, user_keys)
        given, has = as_column(self.table.layout.value, values)
        check_pairs(batch, given)
        self.table.put_many(batch, self.namespace, entries, given, has, stamp_ms)

    def remove_entries(self, keys: Many, user_keys: Many) -> None:
        """`remove` of one entry for each key, all or none."""
        batch, entries = self._addressed(keys, user_keys)
        self.table.remove_many(batch, self.namespace, entries)

    def _addressed(self, keys: Many, user_keys: Many) -> tuple[KeyBatch, KeyBatch]:
        batch, entries = self.table.batch_of(keys), self.table.layout.user_keys(user_keys)
        check_pairs(batch, entries)
        return batch, entries

    def _visit(self, key: Any, namespace: Any, user_key: Any) -> MapEntry | None:
        """The entry that an iteration returns for this user key; None for none."""
        if not self.table.has(key, namespace, user_key):
            return None
        return MapEntry(
            user_key,
            self.table.get(key, namespace, user_key),
            lambda value: self.table.put_all(key, namespace, self._all_normal({user_key: value})),
        )

    hides_current = False
    """Whether `has_next` advances an iteration, so that `remove` has nothing to remove."""


class MapIterator(Iterator[MapEntry]):
    """Entries one by one, with Java's `has_next` and `remove`."""

    def __init__(self, state: MapState, key: Any, namespace: Any) -> None:
        """The entries of this key and namespace."""
        self._state = state
        self._key = key
        self._namespace = namespace
        self._left = iter(state.table.user_keys(key, namespace))
        self._found: MapEntry | None = None
        self._current: MapEntry | None = None

    def has_next(self) -> bool:
        """Whether there is another entry; finding it may remove expired ones."""
        if self._state.hides_current:
            self._current = None
        while self._found is None:
            try:
                user_key = next(self._left)
            except StopIteration:
                return False
            self._found = self._state._visit(self._key, self._namespace, user_key)  # noqa: SLF001
        return True

    def __next__(self) -> MapEntry:
        if not self.has_next():
            raise StopIteration
        self._current, self._found = self._found, None
        assert self._current is not None
        return self._current

    def remove(self) -> None:
        """Remove the entry that `next` just returned.

        Raises:
            IteratorStateError: there is none, it was removed already, or with a TTL `has_next`
                was called since.
        """
        current, self._current = self._current, None
        table = self._state.table
        if current is None or not table.has(self._key, self._namespace, current.key):
            raise IteratorStateError(
                f"map state {self._state.name}: nothing to remove; call remove() once, right "
                "after next()"
            )
        table.discard(self._key, self._namespace, current.key)

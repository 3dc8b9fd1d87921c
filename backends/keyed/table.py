"""What a backend has to offer for one state. It stores; time to live is none of its business.

Rows are addressed by (key, namespace), in a map also by the user key. What is stored is opaque:
the value alone, or `(value, timestamp)` where the layer above asked for timestamps.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from idlestate.backends.keyed.key_groups import KeyGroupRange
from idlestate.backends.keyed.rows import Stored, ValueLayout


class Row(NamedTuple):
    """One row as it travels between backends and snapshots: `rows.py` is its layout."""

    key: bytes
    value: bytes


class Table(ABC):
    """Rows of one state.

    Attributes:
        layout: how its values become bytes.
        refuses_null: whether values have to be there (RocksDB), or None can be stored (heap).
    """

    refuses_null: bool = False
    layout: ValueLayout

    @abstractmethod
    def size(self) -> int:
        """Physical entries: keys on heap, rows on RocksDB (a list is one)."""

    @abstractmethod
    def clear(self, key: Any, namespace: Any) -> None:
        """Remove all that the key has in the namespace."""

    @abstractmethod
    def keys(self, namespace: Any) -> Iterator[Any]:
        """Keys that have something in the namespace."""

    @abstractmethod
    def addresses(self) -> Iterator[tuple[Any, Any]]:
        """(key, namespace) of all that is stored."""

    @abstractmethod
    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, in the order of their bytes."""

    @abstractmethod
    def load(self, rows: Iterable[Row]) -> None:
        """Take rows over that another table gave, into their places."""

    def clear_many(self, keys: Sequence[Any], namespace: Any) -> None:
        """`clear` of many keys."""
        for key in keys:
            self.clear(key, namespace)


class SingleTable(Table):
    """One stored value per key and namespace: value, reducing and aggregating state."""

    @abstractmethod
    def get(self, key: Any, namespace: Any) -> Stored:
        """What is stored, None when nothing is."""

    @abstractmethod
    def put(self, key: Any, namespace: Any, stored: Stored) -> None:
        """Store."""

    def get_many(self, keys: Sequence[Any], namespace: Any) -> list[Stored]:
        """`get` of many keys."""
        return [self.get(key, namespace) for key in keys]

    def put_many(self, keys: Sequence[Any], namespace: Any, stored: Sequence[Stored]) -> None:
        """`put` of many keys, or `clear` where nothing is given, all or none."""
        for key, each in zip(keys, stored, strict=True):
            if each is None:
                self.clear(key, namespace)
            else:
                self.put(key, namespace, each)


class ListTable(Table):
    """A list of stored values per key and namespace."""

    @abstractmethod
    def get(self, key: Any, namespace: Any) -> list[Stored] | None:
        """A copy of the list, None when there is none."""

    @abstractmethod
    def put(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Replace the list; an empty one is removed."""

    @abstractmethod
    def append(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Put at least one item behind the others."""

    @abstractmethod
    def append_many(
        self, keys: Sequence[Any], namespace: Any, items: Sequence[list[Stored]]
    ) -> None:
        """`append` for many keys, all or none."""


class MapTable(Table):
    """A map per key and namespace."""

    @abstractmethod
    def has(self, key: Any, namespace: Any, user_key: Any) -> bool:
        """Whether there is an entry, also one without a value."""

    @abstractmethod
    def get(self, key: Any, namespace: Any, user_key: Any) -> Stored:
        """The entry's value, None when there is none."""

    @abstractmethod
    def put_all(self, key: Any, namespace: Any, entries: dict[Any, Stored]) -> None:
        """Set entries, all or none."""

    @abstractmethod
    def remove(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry; on heap the last one takes the map with it."""

    @abstractmethod
    def discard(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry as an iterator does: on heap an empty map stays."""

    @abstractmethod
    def user_keys(self, key: Any, namespace: Any) -> list[Any]:
        """Keys of the entries."""

    @abstractmethod
    def is_empty(self, key: Any, namespace: Any) -> bool:
        """Whether nothing is stored, expired or not."""

    @abstractmethod
    def get_many(
        self, keys: Sequence[Any], namespace: Any, user_keys: Sequence[Any]
    ) -> list[Stored]:
        """`get` of many entries."""

    @abstractmethod
    def put_many(
        self,
        keys: Sequence[Any],
        namespace: Any,
        user_keys: Sequence[Any],
        stored: Sequence[Stored],
    ) -> None:
        """Set one entry for each of many keys, all or none."""

"""What a backend has to offer for one state. It stores; time to live is none of its business.

Rows are addressed by (key, namespace), in a map also by the user key. What is stored is opaque:
the value alone, or `(value, timestamp)` where the layer above asked for timestamps. All a table
does with timestamps is to remove what is not younger than it is told, when it is told.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from idlestate.backends.runs.byte_arrays import Flags
from idlestate.retention.policy import FOREVER_MS
from idlestate.state.batch_values import Cells, Column, Lists, Stored
from idlestate.state.key_batch import KeyBatch
from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.row_keys import KeyLayout
from idlestate.state.rows import ValueLayout


class Row(NamedTuple):
    """One row as it travels between backends and snapshots: `rows.py` is its layout."""

    key: bytes
    value: bytes


class Removed(NamedTuple):
    """What a walk removed, row by row: all lists are of one length.

    Attributes:
        keys: the keys.
        namespaces: their namespaces.
        user_keys: the keys inside a map, empty for other kinds.
        stored: what was stored.
    """

    keys: list[Any]
    namespaces: list[Any]
    user_keys: list[Any]
    stored: list[Stored]

    @classmethod
    def nothing(cls) -> "Removed":
        """An empty one, to be filled."""
        return cls([], [], [], [])


@dataclass(slots=True)
class Visit:
    """What one part of a walk did.

    Attributes:
        seen: keys (on RocksDB: rows) looked at.
        removed: values, list elements and map entries removed.
        done: whether the walk came to the end.
        oldest_ms: the oldest timestamp that was seen and left, or a later time.
    """

    seen: int = 0
    removed: int = 0
    done: bool = False
    oldest_ms: int = FOREVER_MS


class Walk(ABC):
    """One walk over a table, part by part, that removes what is old.

    What is added behind the place where the walk is may be seen or not.
    """

    @abstractmethod
    def visit(self, limit: int, horizon_ms: int, removed: Removed | None = None) -> Visit:
        """Look at up to this many keys and remove what was stamped at the horizon or before it.

        What was removed goes into `removed` when that is given.
        """


class Table(ABC):
    """Rows of one state.

    Attributes:
        key_layout: how its keys become bytes.
        layout: how its values become bytes.
        refuses_null: whether values have to be there (RocksDB), or None can be stored (heap).
    """

    refuses_null: bool = False
    key_layout: KeyLayout
    layout: ValueLayout

    def batch_of(self, keys: Any) -> KeyBatch:
        """The keys of a batch."""
        return KeyBatch.of(self.key_layout.key, keys)

    @abstractmethod
    def size(self) -> int:
        """Physical entries: keys on heap, rows on RocksDB (a list is one)."""

    def is_blank(self) -> bool:
        """Whether nothing is stored, expired or not."""
        return self.size() == 0

    @abstractmethod
    def clear(self, key: Any, namespace: Any) -> None:
        """Remove all that the key has in the namespace."""

    @abstractmethod
    def clear_many(self, keys: KeyBatch, namespace: Any) -> None:
        """`clear` of many keys, all or none."""

    @abstractmethod
    def keys(self, namespace: Any) -> Iterator[Any]:
        """Keys that have something in the namespace."""

    @abstractmethod
    def walk(self) -> Walk:
        """A walk from the beginning, in a table with timestamps."""

    @abstractmethod
    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, in the order of their bytes."""

    @abstractmethod
    def load(self, rows: Iterable[Row]) -> None:
        """Take rows over that another table gave, into their places."""


class SingleTable(Table):
    """One stored value per key and namespace: value, reducing and aggregating state."""

    @abstractmethod
    def get(self, key: Any, namespace: Any) -> Stored:
        """What is stored, None when nothing is."""

    @abstractmethod
    def put(self, key: Any, namespace: Any, stored: Stored) -> None:
        """Store."""

    @abstractmethod
    def get_many(self, keys: KeyBatch, namespace: Any) -> Cells:
        """`get` of many keys."""

    @abstractmethod
    def put_many(
        self, keys: KeyBatch, namespace: Any, values: Column, has: Flags, stamp_ms: int
    ) -> None:
        """Store a value, or `clear` where there is none, for many keys, all or none.

        Args:
            keys: whose; the last of a key's values counts.
            namespace: in which namespace.
            values: the values.
            has: where there is a value.
            stamp_ms: their timestamp, in a state with timestamps.
        """

    @abstractmethod
    def restamp(self, keys: KeyBatch, namespace: Any, found: Cells, stamp_ms: int) -> None:
        """Give what was just found, all of it there, a new timestamp, all or none."""


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

    def get_many(self, keys: KeyBatch, namespace: Any) -> Lists:
        """`get` of many keys."""
        found = [self.get(key, namespace) for key in keys.keys]
        return Lists.of(found, self.layout.value.kind, stamped=self.layout.stamped)

    @abstractmethod
    def append_many(self, keys: KeyBatch, namespace: Any, values: Column, stamp_ms: int) -> None:
        """`append` of one item for each key, all or none, with one timestamp where there are."""


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
    def get_many(self, keys: KeyBatch, namespace: Any, user_keys: KeyBatch) -> Cells:
        """`get` of many entries; `ValueLayout.user_keys` makes the user keys of a batch."""

    @abstractmethod
    def put_many(
        self,
        keys: KeyBatch,
        namespace: Any,
        user_keys: KeyBatch,
        values: Column,
        has: Flags,
        stamp_ms: int,
    ) -> None:
        """Set one entry for each of many keys, all or none; one without a value where has is not.

        The last of an entry's values counts. Their timestamp is for a state with timestamps.
        """

    @abstractmethod
    def remove_many(self, keys: KeyBatch, namespace: Any, user_keys: KeyBatch) -> None:
        """`remove` of one entry for each of many keys, all or none."""

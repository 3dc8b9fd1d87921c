"""The interface of a backend's table for one state, which does not depend on time to live.

Rows are addressed by (key, namespace), in a map also by the user key. Stored values are opaque: the
value alone, or `(value, timestamp)` if the layer above uses timestamps. The only use of timestamps
in a table is to remove rows up to a given horizon.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from idlestate.backends.runs.byte_arrays import Flags, Positions
from idlestate.retention.policy import FOREVER_MS
from idlestate.state.batch_values import Cells, Column, Lists, Stored
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.key_batch import KeyBatch
from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.row_keys import KeyLayout


class Row(NamedTuple):
    """One row in transfers between backends and snapshots; `byte_layout.py` defines its layout."""

    key: bytes
    value: bytes


class Removed(NamedTuple):
    """The rows that a walk removed; all lists have the same length.

    Attributes:
        keys: the keys.
        namespaces: their namespaces.
        user_keys: the keys inside a map; empty for other kinds.
        stored: the stored values.
    """

    keys: list[Any]
    namespaces: list[Any]
    user_keys: list[Any]
    stored: list[Stored]

    @classmethod
    def nothing(cls) -> "Removed":
        """An empty object to fill."""
        return cls([], [], [], [])


@dataclass(slots=True)
class Visit:
    """The report of one part of a walk.

    Attributes:
        seen: number of visited keys (on RocksDB: rows).
        removed: number of removed values, list elements and map entries.
        done: whether the walk reached the end.
        oldest_ms: the oldest remaining timestamp that was visited, or a later time.
    """

    seen: int = 0
    removed: int = 0
    done: bool = False
    oldest_ms: int = FOREVER_MS


class Walk(ABC):
    """A walk over a table in parts, which removes old rows.

    Rows that are added before the walk's current position may or may not be visited.
    """

    @abstractmethod
    def visit(self, limit: int, horizon_ms: int, removed: Removed | None = None) -> Visit:
        """Visit at most this many keys, and remove values with timestamps up to the horizon.

        If `removed` is given, the removed rows are added to it.
        """


class Table(ABC):
    """Rows of one state.

    Attributes:
        key_layout: the layout of its keys.
        layout: the layout of its values.
        refuses_null: whether values are required (RocksDB), or None can be stored (heap).
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
        """Remove everything of the key in the namespace."""

    @abstractmethod
    def clear_many(self, keys: KeyBatch, namespace: Any) -> None:
        """`clear` of many keys, all or none."""

    @abstractmethod
    def keys(self, namespace: Any) -> Iterator[Any]:
        """Keys with stored data in the namespace."""

    @abstractmethod
    def walk(self) -> Walk:
        """A walk from the beginning, in a table with timestamps."""

    @abstractmethod
    def stamps(self) -> Iterator[Positions]:
        """The timestamps of all values, list elements and map entries, in portions.

        Only for a table with timestamps, which must not change meanwhile.
        """

    @abstractmethod
    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, in the order of their bytes."""

    @abstractmethod
    def load(self, rows: Iterable[Row]) -> None:
        """Add rows of another table."""


class SingleTable(Table):
    """One stored value per key and namespace: value, reducing and aggregating state."""

    @abstractmethod
    def get(self, key: Any, namespace: Any) -> Stored:
        """The stored value; None if there is none."""

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
        """For many keys, store a value, or `clear` if there is none; all or none.

        Args:
            keys: the keys; of several values for a key, the last one counts.
            namespace: the namespace.
            values: the values.
            has: whether there is a value.
            stamp_ms: their timestamp, in a state with timestamps.
        """

    @abstractmethod
    def restamp(self, keys: KeyBatch, namespace: Any, found: Cells, stamp_ms: int) -> None:
        """Set a new timestamp for values that were just found; all or none."""


class ListTable(Table):
    """A list of stored values per key and namespace."""

    @abstractmethod
    def get(self, key: Any, namespace: Any) -> list[Stored] | None:
        """A copy of the list; None if there is none."""

    @abstractmethod
    def put(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Replace the list; an empty list is removed."""

    @abstractmethod
    def append(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Append one or more items."""

    def get_many(self, keys: KeyBatch, namespace: Any) -> Lists:
        """`get` of many keys."""
        found = [self.get(key, namespace) for key in keys.keys]
        return Lists.of(found, self.layout.value.kind, stamped=self.layout.stamped)

    @abstractmethod
    def append_many(self, keys: KeyBatch, namespace: Any, values: Column, stamp_ms: int) -> None:
        """`append` one item for each key, all or none; with one timestamp, if any."""


class MapTable(Table):
    """A map per key and namespace."""

    @abstractmethod
    def has(self, key: Any, namespace: Any, user_key: Any) -> bool:
        """Whether there is an entry, with or without a value."""

    @abstractmethod
    def get(self, key: Any, namespace: Any, user_key: Any) -> Stored:
        """The entry's value; None if there is none."""

    @abstractmethod
    def put_all(self, key: Any, namespace: Any, entries: dict[Any, Stored]) -> None:
        """Set entries, all or none."""

    @abstractmethod
    def remove(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry; on heap, removing the last one removes the map."""

    @abstractmethod
    def discard(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry like an iterator: on heap, an empty map stays."""

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
        """Set one entry for each of many keys, all or none; without a value where `has` is false.

        Of several values for an entry, the last one counts. The timestamp is for a state with
        timestamps.
        """

    @abstractmethod
    def remove_many(self, keys: KeyBatch, namespace: Any, user_keys: KeyBatch) -> None:
        """`remove` of one entry for each of many keys, all or none."""

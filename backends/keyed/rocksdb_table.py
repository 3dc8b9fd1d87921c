"""Tables in RocksDB: one column family per state, rows as `rows.py` lays them out.

A row is never read to be written: an append to a list is a row of its own behind the others,
numbered upwards, until a compaction merges them. All that one call writes is one write batch.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from rocksdict import Rdict, WriteBatch

from idlestate.backends.keyed.cleanup import lists_in, merged_row
from idlestate.backends.keyed.errors import StorageError
from idlestate.backends.keyed.key_groups import KeyGroupRange
from idlestate.backends.keyed.rows import (
    GROUP,
    MERGED,
    SEQUENCE,
    KeyLayout,
    Stored,
    ValueLayout,
)
from idlestate.backends.keyed.table import ListTable, MapTable, Row, SingleTable, Table

LOAD_ROWS = 10_000


def refused(database: Rdict, error: Exception) -> StorageError:
    """What RocksDB refused (a full disk, a broken file), plainly. It raises bare exceptions."""
    return StorageError(f"{database.path()}: RocksDB refused, nothing was written: {error}")


def write(database: Rdict, batch: WriteBatch) -> None:
    """Write a batch, whole or not at all.

    Raises:
        StorageError: the disk is full or broken.
    """
    if not batch.is_empty():
        try:
            database.write(batch)
        except Exception as error:
            raise refused(database, error) from error


def scan(family: Rdict, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Rows from `start` on whose keys begin with `prefix`."""
    cursor = family.iter()
    cursor.seek(start)
    while cursor.valid():
        key = cursor.key()
        if not key.startswith(prefix):
            return
        yield key, cursor.value()
        cursor.next()


class RocksDBTable(Table):
    """What the kinds share."""

    refuses_null = True

    def __init__(self, database: Rdict, name: str, keys: KeyLayout, layout: ValueLayout) -> None:
        """The table in the column family of this name."""
        self.layout = layout
        self.family = database.get_column_family(name)
        self._handle = database.get_column_family_handle(name)
        self._database = database
        self._keys = keys
        self._next = database.latest_sequence_number() + 1

    def close(self) -> None:
        """Let go of the database."""
        self._handle = None
        self.family.close()

    def batch(self) -> WriteBatch:
        """A batch of writes to this table."""
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._handle)
        return batch

    def write(self, batch: WriteBatch) -> None:
        """Write a batch, whole or not at all."""
        write(self._database, batch)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose keys begin with these bytes."""
        return scan(self.family, prefix, prefix)

    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, in the order of their bytes."""
        return self.stored_rows(groups)

    def stored_rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """Rows as they are, the appends of a list apart."""
        cursor = self.family.iter()
        cursor.seek(GROUP.pack(groups.first))
        last = groups.last
        while cursor.valid():
            key = cursor.key()
            if key[0] << 8 | key[1] > last:
                return
            yield Row(key, cursor.value())
            cursor.next()

    def load(self, rows: Iterable[Row]) -> None:
        """Take rows over that another table gave, into their places."""
        end = self._keys.end_of_prefix
        kept = (row for row in rows if len(row.key) > end(row.key) or self._keeps_bare_rows)
        while part := list(islice(kept, LOAD_ROWS)):
            batch = self.batch()
            for row in part:
                batch.put(row.key, row.value)
            self.write(batch)

    _keeps_bare_rows = True

    def size(self) -> int:
        """Rows; a list is one."""
        return sum(1 for _ in scan(self.family, b"", b""))

    def addresses(self) -> Iterator[tuple[Any, Any]]:
        """(key, namespace) of all that is stored."""
        before = b"\xff"
        for row, _ in scan(self.family, b"", b""):
            if row.startswith(before) and self._keys.end_of_prefix(row) == len(before):
                continue
            before = row[: self._keys.end_of_prefix(row)]
            _, key, namespace, _ = self._keys.split(row)
            yield key, namespace

    def keys(self, namespace: Any) -> Iterator[Any]:
        """Keys that have something in the namespace."""
        return (key for key, each in self.addresses() if each == namespace)

    def clear(self, key: Any, namespace: Any) -> None:
        """Remove all that the key has in the namespace."""
        self.clear_many((key,), namespace)

    def clear_many(self, keys: Sequence[Any], namespace: Any) -> None:
        """`clear` of many keys, all or none."""
        batch = self.batch()
        for key in keys:
            for row, _ in self.scan(self._keys.prefix(key, namespace)):
                batch.delete(row)
        self.write(batch)


class RocksDBSingleTable(RocksDBTable, SingleTable):
    """One stored value per key."""

    def get(self, key: Any, namespace: Any) -> Stored:
        """What is stored, None when nothing is."""
        row = self.family.get(self._keys.prefix(key, namespace))
        return None if row is None else self.layout.decode(row)

    def put(self, key: Any, namespace: Any, stored: Stored) -> None:
        """Store.

        Raises:
            NullValueError: there is no value to store.
        """
        row = self.layout.encode_present(stored)
        try:
            self.family.put(self._keys.prefix(key, namespace), row)
        except Exception as error:
            raise refused(self._database, error) from error

    def get_many(self, keys: Sequence[Any], namespace: Any) -> list[Stored]:
        """`get` of many keys."""
        prefix, decode = self._keys.prefix, self.layout.decode
        rows = self.family.get([prefix(key, namespace) for key in keys])
        return [None if row is None else decode(row) for row in rows]

    def put_many(self, keys: Sequence[Any], namespace: Any, stored: Sequence[Stored]) -> None:
        """`put` of many keys, or `clear` where nothing is given, all or none."""
        prefix, encode = self._keys.prefix, self.layout.encode_present
        batch = self.batch()
        for key, each in zip(keys, stored, strict=True):
            if each is None:
                batch.delete(prefix(key, namespace))
            else:
                batch.put(prefix(key, namespace), encode(each))
        self.write(batch)

    def clear(self, key: Any, namespace: Any) -> None:
        """Remove what the key has in the namespace."""
        self.family.delete(self._keys.prefix(key, namespace))

    def clear_many(self, keys: Sequence[Any], namespace: Any) -> None:
        """`clear` of many keys, all or none."""
        batch = self.batch()
        for key in keys:
            batch.delete(self._keys.prefix(key, namespace))
        self.write(batch)


class RocksDBListTable(RocksDBTable, ListTable):
    """A list per key: one merged row, and a row for each append since."""

    _keeps_bare_rows = False

    def size(self) -> int:
        """Lists."""
        return sum(1 for _ in self.addresses())

    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, one for each list."""
        for together in self.lists(groups):
            yield merged_row(together, b"".join(row.value for row in together))

    def lists(self, groups: KeyGroupRange) -> Iterator[list[Row]]:
        """Rows as they are, those of one list together."""
        return lists_in(self.stored_rows(groups), self._keys.end_of_prefix)

    def get(self, key: Any, namespace: Any) -> list[Stored] | None:
        """The list, None when there is none."""
        items: list[Stored] = []
        for _, row in self.scan(self._keys.prefix(key, namespace)):
            items += self.layout.decode_items(row)
        return items or None

    def put(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Replace the list; an empty one is removed."""
        prefix = self._keys.prefix(key, namespace)
        data = self.layout.encode_items(items)
        batch = self.batch()
        for row, _ in self.scan(prefix):
            batch.delete(row)
        if items:
            batch.put(prefix + MERGED, data)
        self.write(batch)

    def append(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Put items behind the others."""
        self.append_many((key,), namespace, (items,))

    def append_many(
        self, keys: Sequence[Any], namespace: Any, items: Sequence[list[Stored]]
    ) -> None:
        """`append` for many keys, all or none."""
        batch, prefix, encode = self.batch(), self._keys.prefix, self.layout.encode_items
        for number, (key, each) in enumerate(zip(keys, items, strict=True), self._next):
            batch.put(prefix(key, namespace) + SEQUENCE.pack(number), encode(each))
        self._next += len(keys)
        self.write(batch)


class RocksDBMapTable(RocksDBTable, MapTable):
    """A map per key, one row per entry."""

    _keeps_bare_rows = False

    def _row(self, key: Any, namespace: Any, user_key: Any) -> bytes:
        return self._keys.prefix(key, namespace) + self.layout.encode_user_key(user_key)

    def _encode(self, stored: Stored) -> bytes:
        # Without timestamps a null marker stands for None, as in Flink.
        layout = self.layout
        return layout.encode_present(stored) if layout.stamped else layout.encode(stored)

    def has(self, key: Any, namespace: Any, user_key: Any) -> bool:
        """Whether there is an entry, also one without a value."""
        return self.family.get(self._row(key, namespace, user_key)) is not None

    def get(self, key: Any, namespace: Any, user_key: Any) -> Stored:
        """The entry's value, None when there is none."""
        row = self.family.get(self._row(key, namespace, user_key))
        return None if row is None else self.layout.decode(row)

    def put_all(self, key: Any, namespace: Any, entries: dict[Any, Stored]) -> None:
        """Set entries, all or none."""
        batch, prefix = self.batch(), self._keys.prefix(key, namespace)
        for user_key, stored in entries.items():
            batch.put(prefix + self.layout.encode_user_key(user_key), self._encode(stored))
        self.write(batch)

    def remove(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry."""
        self.family.delete(self._row(key, namespace, user_key))

    discard = remove

    def user_keys(self, key: Any, namespace: Any) -> list[Any]:
        """Keys of the entries."""
        prefix = self._keys.prefix(key, namespace)
        decode, at = self.layout.decode_user_key, len(prefix)
        return [decode(row[at:]) for row, _ in self.scan(prefix)]

    def is_empty(self, key: Any, namespace: Any) -> bool:
        """Whether nothing is stored, expired or not."""
        return next(self.scan(self._keys.prefix(key, namespace)), None) is None

    def get_many(
        self, keys: Sequence[Any], namespace: Any, user_keys: Sequence[Any]
    ) -> list[Stored]:
        """`get` of many entries."""
        rows = self.family.get(
            [self._row(key, namespace, each) for key, each in zip(keys, user_keys, strict=True)]
        )
        return [None if row is None else self.layout.decode(row) for row in rows]

    def put_many(
        self,
        keys: Sequence[Any],
        namespace: Any,
        user_keys: Sequence[Any],
        stored: Sequence[Stored],
    ) -> None:
        """Set one entry for each of many keys, all or none."""
        batch = self.batch()
        for key, user_key, each in zip(keys, user_keys, stored, strict=True):
            batch.put(self._row(key, namespace, user_key), self._encode(each))
        self.write(batch)

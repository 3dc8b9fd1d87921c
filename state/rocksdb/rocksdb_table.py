"""Tables in RocksDB: one column family per state, rows as `byte_layout.py` lays them out.

Writes never read: an append to a list is a separate, numbered row after the others, until a
compaction merges them. Each call writes one atomic batch. Batches are read and written in row
order, so that neighbouring rows are in the same blocks.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Protocol

from rocksdict import Rdict, RdictIter, ReadOptions, WriteBatch

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.errors import DamagedFileError, StateError, StateStoreError
from idlestate.state.key_batch import KeyBatch
from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.rocksdb.sweep_of_rows import RowWalk
from idlestate.state.row_keys import GROUP, KeyLayout
from idlestate.state.table import Row, Table, Walk
from idlestate.state.usage import Usage

LOAD_ROWS = 10_000
DAMAGED = "Corruption"
"""What RocksDB's text begins with if a file is damaged."""


def refused(place: Any, error: Exception) -> StateError:
    """The error for one of RocksDB, which has no classes: full disk, damaged file."""
    folder = place.path() if isinstance(place, Rdict) else place
    if str(error).startswith(DAMAGED):
        return DamagedFileError(
            f"{folder}: a file of RocksDB is damaged: {error}; restore the folder from a backup, "
            "or the state from a snapshot"
        )
    return StateStoreError(
        f"{folder}: RocksDB failed, nothing was written: {error}; free disk space or repair the "
        "disk, then open the state again"
    )


@contextmanager
def plainly(place: Any) -> Iterator[None]:
    """Raise our errors for those of RocksDB; `place` is the folder."""
    try:
        yield
    except (StateError, OSError):
        raise
    except Exception as error:
        raise refused(place, error) from error


def let_go(database: Rdict) -> None:
    """Close a database or column family.

    Closing flushes memory, which fails on a full disk; but the log contains the same data.
    """
    with suppress(Exception):
        database.close()


def write(database: Rdict, batch: WriteBatch) -> None:
    """Write a batch atomically.

    Raises:
        StateStoreError: the disk is full or broken.
        DamagedFileError: a file is damaged.
    """
    if not batch.is_empty():
        try:
            database.write(batch)
        except Exception as error:
            raise refused(database, error) from error


def bounds_of(prefix: bytes) -> ReadOptions:
    """Options of a cursor that ends with the rows whose keys begin with `prefix`.

    Without an end, a cursor searches for the next row past all deleted ones. RocksDB only refers to
    these options: keep them as long as the cursor is used.
    """
    bounds = ReadOptions()
    if prefix:
        above = int.from_bytes(prefix, "big") + 1
        bounds.set_iterate_upper_bound(above.to_bytes(len(prefix), "big"))
    return bounds


def scan(family: Rdict, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Rows from `start` on whose keys begin with `prefix`, which starts with a key group.

    Raises:
        StateStoreError: the disk is broken.
        DamagedFileError: a file is damaged.
    """
    bounds = bounds_of(prefix)
    cursor = family.iter(bounds)
    cursor.seek(start)
    while cursor.valid():
        yield cursor.key(), cursor.value()
        cursor.next()
    check(family, cursor)
    del bounds


def check(database: Rdict, cursor: RdictIter) -> None:
    """Raise an error if a cursor failed: it looks like a cursor at the end."""
    try:
        cursor.status()
    except Exception as error:
        raise refused(database, error) from error


class Family(Protocol):
    """A column family in use.

    Attributes:
        family: rocksdict's handle.
        swept_bytes: bytes of rows that sweeps removed since the last compaction.
    """

    family: Rdict
    swept_bytes: int


def usage_of(place: Family) -> Usage:
    """The bytes of a column family."""
    sizes = {
        name: place.family.property_int_value(f"rocksdb.{name}") or 0
        for name in ("total-sst-files-size", "estimate-live-data-size", "cur-size-all-mem-tables")
    }
    files = sizes["total-sst-files-size"]
    total = files + sizes["cur-size-all-mem-tables"]
    overwritten = max(files - sizes["estimate-live-data-size"], 0)
    return Usage(total, min(max(overwritten, place.swept_bytes), total))


class RocksDBTable(Table):
    """The common part of all kinds.

    Attributes:
        swept_bytes: bytes of rows that sweeps removed since the last compaction.
    """

    refuses_null = True

    def __init__(self, database: Rdict, name: str, keys: KeyLayout, layout: ValueLayout) -> None:
        """The table in this column family."""
        self.key_layout = keys
        self.layout = layout
        self.family = database.get_column_family(name)
        self._handle = database.get_column_family_handle(name)
        self._database = database
        self.swept_bytes = 0

    def close(self) -> None:
        """Release the database."""
        self._handle = None
        let_go(self.family)

    def batch(self) -> WriteBatch:
        """A batch of writes to this table."""
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._handle)
        return batch

    def delete_range(self, batch: WriteBatch, first: bytes, last: bytes) -> None:
        """Add a range delete to a batch, from the first to the last row, both included."""
        # Named here, since a batch's default family does not count for ranges.
        batch.delete_range(first, last + b"\0", self._handle)

    def write(self, batch: WriteBatch) -> None:
        """Write a batch atomically."""
        write(self._database, batch)

    def read(self, rows: bytes | list[bytes]) -> Any:
        """The value of a row, or of each of many.

        Raises:
            StateStoreError: the disk is broken.
            DamagedFileError: a file is damaged.
        """
        try:
            return self.family.get(rows)
        except Exception as error:
            raise refused(self._database, error) from error

    def put_row(self, row: bytes, value: bytes) -> None:
        """Write one row."""
        try:
            self.family.put(row, value)
        except Exception as error:
            raise refused(self._database, error) from error

    def delete_row(self, row: bytes) -> None:
        """Remove one row, if it exists."""
        try:
            self.family.delete(row)
        except Exception as error:
            raise refused(self._database, error) from error

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose keys begin with these bytes."""
        return scan(self.family, prefix, prefix)

    def scan_from(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All rows from this one on."""
        return scan(self.family, start, b"")

    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, in the order of their bytes."""
        return self.stored_rows(groups)

    def stored_rows(self, groups: KeyGroupRange, start: bytes = b"") -> Iterator[Row]:
        """Stored rows from `start` on, with separate rows for appends of a list."""
        last = groups.last
        for key, value in scan(self.family, max(start, GROUP.pack(groups.first)), b""):
            if key[0] << 8 | key[1] > last:
                return
            yield Row(key, value)

    def load(self, rows: Iterable[Row]) -> None:
        """Add rows of another table."""
        end = self.key_layout.end_of_prefix
        kept = (row for row in rows if len(row.key) > end(row.key) or self._keeps_bare_rows)
        while part := list(islice(kept, LOAD_ROWS)):
            batch = self.batch()
            for row in part:
                batch.put(row.key, row.value)
            self.write(batch)

    _keeps_bare_rows = True

    def size(self) -> int:
        """Rows; a list is one."""
        return sum(1 for _ in self.scan(b""))

    def addresses(self) -> Iterator[tuple[Any, Any]]:
        """(key, namespace) of all stored rows."""
        end_of_prefix, before = self.key_layout.end_of_prefix, b"\xff"
        for row, _ in self.scan(b""):
            if row.startswith(before) and end_of_prefix(row) == len(before):
                continue
            before = row[: end_of_prefix(row)]
            _, key, namespace, _ = self.key_layout.split(row)
            yield key, namespace

    def keys(self, namespace: Any) -> Iterator[Any]:
        """Keys with stored data in the namespace."""
        return (key for key, each in self.addresses() if each == namespace)

    def clear(self, key: Any, namespace: Any) -> None:
        """Remove everything of the key in the namespace."""
        self._clear([self.key_layout.prefix(key, namespace)])

    def clear_many(self, keys: KeyBatch, namespace: Any) -> None:
        """`clear` of many keys, all or none."""
        self._clear(self.key_layout.prefixes(keys, namespace).to_pylist())

    def _clear(self, prefixes: list[bytes]) -> None:
        batch = self.batch()
        for prefix in prefixes:
            for row, _ in self.scan(prefix):
                batch.delete(row)
        self.write(batch)

    def stamps(self) -> Iterator[Positions]:
        """The timestamps of all rows, in portions."""
        values = (value for _, value in self.scan(b""))
        while some := list(islice(values, LOAD_ROWS)):
            yield self._stamps_in(some)

    def _stamps_in(self, values: list[bytes]) -> Positions:
        """The timestamps in row values."""
        flags, stamps = self.layout.heads(values)
        return stamps[flags]

    def walk(self) -> Walk:
        """A walk from the beginning."""
        return RowWalk(self)

"""RocksDB itself: its column families, and the record of their contents."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rocksdict import AccessType, Rdict, WriteBatch

from idlestate.state.descriptors import StateKind
from idlestate.state.errors import (
    DamagedFileError,
    FolderInUseError,
    StateError,
    StateStoreError,
)
from idlestate.state.rocksdb.rocksdb_list import RocksDBListTable
from idlestate.state.rocksdb.rocksdb_map import RocksDBMapTable
from idlestate.state.rocksdb.rocksdb_options import options
from idlestate.state.rocksdb.rocksdb_table import (
    DAMAGED,
    RocksDBTable,
    bounds_of,
    check,
    let_go,
    plainly,
    refused,
    scan,
    write,
)
from idlestate.state.rocksdb.single_values import RocksDBSingleTable
from idlestate.state.row_keys import KeyLayout
from idlestate.state.state_schema import VERSIONS, StateSchema, check_versions

RECORD = b"idlestate"
CLEANED = b"idlestate cleaned "
TIMERS = "timers "
LOCKED = ("lock hold by current process", "LOCK: Resource temporarily unavailable")
"""What RocksDB says if this process or another one has the folder open."""

TABLES: dict[StateKind, type[RocksDBTable]] = {
    StateKind.VALUE: RocksDBSingleTable,
    StateKind.REDUCING: RocksDBSingleTable,
    StateKind.AGGREGATING: RocksDBSingleTable,
    StateKind.LIST: RocksDBListTable,
    StateKind.MAP: RocksDBMapTable,
}


class Database:
    """An open database with idlestate's record of it.

    Attributes:
        path: the folder.
        raw: rocksdict's handle.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open it; create it if needed.

        Raises:
            FolderInUseError: it is open already.
            DamagedFileError: a file of it is lost or damaged.
            StateStoreError: it cannot be opened.
        """
        self.path = path
        try:
            is_new = not (path / "CURRENT").exists()
            if is_new:
                path.mkdir(parents=True, exist_ok=True)
            names = [] if is_new else Rdict.list_cf(str(path), options())
            self.raw = Rdict(
                str(path),
                options(),
                column_families={name: options() for name in names if name != "default"},
                access_type=AccessType.read_only() if read_only else AccessType.read_write(),
            )
        except Exception as error:
            raise _not_opened(path, error) from error
        self._families = set(names)

    def record(self) -> dict[str, Any] | None:
        """The record; None in a new database."""
        with plainly(self.path):
            data = self.raw.get(RECORD)
        if data is None:
            return None
        record: dict[str, Any] = json.loads(data)
        check_versions(record, str(self.path))
        return record

    def write_record(self, record: dict[str, Any]) -> None:
        """Record durably."""
        with plainly(self.path):
            self.raw[RECORD] = json.dumps(VERSIONS | record).encode()

    def cleaned_ms(self, state: str) -> int | None:
        """When the last periodic cleanup of a state started; None for never."""
        with plainly(self.path):
            data = self.raw.get(CLEANED + state.encode())
        return None if data is None else int(data)

    def record_cleaned(self, state: str, begun_ms: int) -> None:
        """Record durably when a finished periodic cleanup started."""
        with plainly(self.path):
            self.raw[CLEANED + state.encode()] = b"%d" % begun_ms

    def make_family(self, name: str) -> Rdict:
        """A new column family; rows of an interrupted run under its name are removed."""
        with plainly(self.path):
            if name in self._families:
                self.raw.drop_column_family(name)
            self._families.add(name)
            return self.raw.create_column_family(name, options())

    def family(self, name: str) -> Rdict:
        """A column family; created if needed."""
        return (
            self.raw.get_column_family(name) if name in self._families else (self.make_family(name))
        )

    def families(self) -> list[str]:
        """Names of all column families."""
        return sorted(self._families)

    def drop_family(self, name: str) -> None:
        """Remove a column family with its rows."""
        self._families.discard(name)
        with plainly(self.path):
            self.raw.drop_column_family(name)

    def table(self, schema: StateSchema, keys: KeyLayout) -> RocksDBTable:
        """The table of a state, in its column family."""
        with plainly(self.path):
            return TABLES[schema.kind](self.raw, schema.family, keys, schema.layout)

    def close(self) -> None:
        """Close."""
        let_go(self.raw)


class FamilyTimerStore:
    """Timers as keys of a column family: a `TimerStore`."""

    def __init__(self, database: Database, name: str) -> None:
        """The timers of this name."""
        with plainly(database.path):
            self.family = database.family(TIMERS + name)
            self._handle = database.raw.get_column_family_handle(TIMERS + name)
        self._database = database.raw
        self.swept_bytes = 0

    def has(self, rows: Sequence[bytes]) -> list[bool]:
        """Whether each row exists."""
        try:
            found = self.family.get(list(rows)) if rows else []
        except Exception as error:
            raise refused(self._database, error) from error
        return [value is not None for value in found]

    def write(self, added: Iterable[bytes], removed: Iterable[bytes]) -> None:
        """Add and remove rows, all or none."""
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._handle)
        for row in added:
            batch.put(row, b"")
        for row in removed:
            batch.delete(row)
        write(self._database, batch)

    def due(self, starts: Sequence[bytes], end: bytes, limit: int) -> list[list[bytes]]:
        """At most this many rows from each start on, in its group, with times up to this."""
        found = []
        for start in starts:
            rows, last = [], start[:2] + end
            bounds = bounds_of(last)
            cursor = self.family.iter(bounds)
            cursor.seek(start)
            while limit > 0 and cursor.valid():
                rows.append(cursor.key())
                limit -= 1
                cursor.next()
            check(self._database, cursor)
            if rows:
                found.append(rows)
        return found

    def remove_ranges(self, ranges: Iterable[tuple[bytes, bytes]]) -> None:
        """Remove all rows from the first to the last of each pair, both included, all or none."""
        batch = WriteBatch(raw_mode=True)
        for first, last in ranges:
            # Named here, since a batch's default family does not count for ranges.
            batch.delete_range(first, last + b"\0", self._handle)
        write(self._database, batch)

    def scan(self, start: bytes, prefix: bytes) -> Iterator[bytes]:
        """Rows from `start` on that begin with `prefix`, in order."""
        return (row for row, _ in scan(self.family, start, prefix))

    def close(self) -> None:
        """Release the database."""
        self._handle = None
        let_go(self.family)


def _not_opened(path: Path, error: Exception) -> StateError:
    """The error for what was raised when a folder was opened."""
    text = str(error)
    if any(each in text for each in LOCKED):
        return FolderInUseError(
            f"{path} is open already, here or in another process: close it there first, or use "
            "another folder"
        )
    is_lost = not isinstance(error, OSError) and "No such file or directory" in text
    if is_lost or text.startswith(DAMAGED):
        return DamagedFileError(
            f"{path}: a file of RocksDB is lost or damaged: {error}; restore the folder from a "
            "backup, or the state from a snapshot"
        )
    return StateStoreError(f"{path}: RocksDB does not open: {error}")

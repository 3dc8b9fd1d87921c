"""The numbered log of expired records, from which all consumers read them.

A batch or a sweep stages its expire rows as one value, `x/<uid>/<shard>/<id>`. When it takes
effect, they get their numbers: an entry `e/<uid>/<first>` names the value, its rows and the time.
Small entries are joined later (`expired_log_compaction`), with their rows under `j/<uid>/<id>`.
Records are kept until every registered consumer has acknowledged them, or for the retention.
"""

import bisect
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import numpy as np
import pyarrow as pa

from idlestate.backends.shards.table_spec import TableSpec
from idlestate.sidecar.core.expired_rows import shown_rows, stored_rows
from idlestate.sidecar.protocol.errors import DamagedDirectoryError
from idlestate.sidecar.protocol.transfers import stream_of
from idlestate.sidecar.stores.store import Store

SEQUENCE = "seq"
"""The last column, with the record's number."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Expire rows in the store without numbers."""

    key: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LogEntry:
    """Numbered expire rows, from `first` on."""

    first: int
    rows: int
    key: str
    at_ms: int
    bytes: int
    """The size of the value with its rows."""

    @property
    def stop(self) -> int:
        """The number after its last."""
        return self.first + self.rows


def numbers_of(rows: pa.Table) -> pa.ChunkedArray:
    """The numbers of records, found by position because a key or an aggregate may have the same
    name.
    """
    return rows.column(rows.num_columns - 1)


def stage_rows(
    uid: str, shard: int, spec: TableSpec, rows: pa.Table, values: dict[str, bytes]
) -> tuple[Staged, ...]:
    """Add the expire rows of a shard to the values to write, if there are any."""
    if not rows.num_rows:
        return ()
    key = f"x/{uid}/{shard:05}/{uuid4().hex}"
    values[key] = stream_of(stored_rows(spec, rows))
    return (Staged(key, rows.num_rows, len(values[key])),)


class ExpiredLog:
    """The entries of one operator, oldest first.

    Args:
        store: where the entries are.
        uid: the operator.
        value: reads staged rows.
    """

    def __init__(self, store: Store, uid: str, value: Callable[[str], bytes | None]) -> None:
        """Read the entries, not the records."""
        self._value = value
        self._uid = uid
        self.entries: list[LogEntry] = []

        for key, entry in store.scan(f"e/{uid}/"):
            facts = json.loads(entry)
            first = int(key.rpartition("/")[2])
            self.entries.append(LogEntry(first, **facts))

    def numbered(self, staged: Iterable[Staged], first: int, at_ms: int) -> list[LogEntry]:
        """The entries of staged rows, numbered from a number on."""
        found = []
        for each in staged:
            found.append(LogEntry(first, each.rows, each.key, at_ms, each.bytes))
            first += each.rows
        return found

    def values(self, entries: Iterable[LogEntry]) -> dict[str, bytes]:
        """Entries as values to write."""
        return {
            self._key(each): json.dumps(
                {"rows": each.rows, "key": each.key, "at_ms": each.at_ms, "bytes": each.bytes}
            ).encode()
            for each in entries
        }

    def read(self, since: int, before: int, most_rows: int, spec: TableSpec) -> pa.Table | None:
        """Records from a number on with their numbers, at most about `most_rows`, in the columns of
        the current definition; None if there are none.

        Raises:
            DamagedDirectoryError: a value of the log is missing.
        """
        tables: list[pa.Table] = []
        rows = 0
        entries = list(self.entries)
        at = bisect.bisect_right(entries, since, key=lambda entry: entry.stop)
        for entry in itertools.islice(entries, at, None):
            if entry.first >= before or rows >= most_rows:
                break
            table = shown_rows(spec, self.stored(entry))
            numbers = np.arange(entry.first, entry.stop)
            skip = max(0, since - entry.first)
            length = min(before, entry.stop) - entry.first - skip
            numbered = table.append_column(SEQUENCE, pa.array(numbers))
            tables.append(numbered.slice(skip, min(length, most_rows - rows)))
            rows += len(tables[-1])
        return pa.concat_tables(tables) if tables else None

    def stored(self, entry: LogEntry) -> pa.Table:
        """The records of an entry, as stored in the log.

        Raises:
            DamagedDirectoryError: they are missing.
        """
        value = self._value(entry.key)
        if value is None:
            raise DamagedDirectoryError(f"{entry.key} is missing: restore the folder from a backup")
        return pa.ipc.open_stream(value).read_all()

    def removable(
        self, consumers: Mapping[str, int], older_than_ms: int
    ) -> tuple[Sequence[LogEntry], dict[str, None]]:
        """The oldest entries that are no longer needed, and the keys to remove with them."""
        done = min(consumers.values(), default=-1)
        count = 0
        for entry in self.entries:
            if entry.stop > done and entry.at_ms > older_than_ms:
                break
            count += 1
        gone = self.entries[:count]
        return gone, self.keys(gone)

    def keys(self, entries: Iterable[LogEntry]) -> dict[str, None]:
        """The keys of entries and their records."""
        return {key: None for each in entries for key in (self._key(each), each.key)}

    def _key(self, entry: LogEntry) -> str:
        return f"e/{self._uid}/{entry.first:020}"

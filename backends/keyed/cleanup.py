"""Taking expired values out: by steps that go with accesses, by sweeps, in snapshots, and in
compactions.

Each way has its own idea of what to do with a list, and all are Flink's:

    step, sweep    expired elements go, wherever they are
    snapshot       the leading run of expired elements is cut
    compaction     the same, but each append that was not merged yet is judged alone
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import dropwhile, islice
from typing import Any

from idlestate.backends.keyed.descriptors import StateKind
from idlestate.backends.keyed.rows import MERGED, NO_VALUE, Stored, ValueLayout
from idlestate.backends.keyed.table import ListTable, MapTable, Row, SingleTable, Table
from idlestate.backends.keyed.ttl import Ttl


def cut(items: list[Stored], ttl: Ttl, now_ms: int) -> list[Stored]:
    """The list without its leading run of expired elements."""
    return list(dropwhile(lambda item: ttl.expired(item, now_ms), items))


@dataclass(slots=True)
class Visitor:
    """Walks over a table again and again, and removes what has expired.

    Attributes:
        table: the table.
        ttl: its rule.
    """

    table: Table
    ttl: Ttl
    _left: Iterator[tuple[Any, Any]] = field(default_factory=lambda: iter(()))

    def step(self, limit: int) -> None:
        """Look at this many keys; a step that comes to the end ends there."""
        seen, _ = self.visit(limit, self.ttl.now_ms())
        if seen == 0:
            self.visit(limit, self.ttl.now_ms())

    def visit(self, limit: int, now_ms: int) -> tuple[int, int]:
        """Look at up to this many keys: how many were seen and how many entries removed.

        At the end of the table less than the limit are seen; the next call begins anew.
        """
        seen = removed = 0
        for key, namespace in islice(self._left, limit):
            seen += 1
            removed += self.purge(key, namespace, now_ms)
        if seen < limit:
            self.restart()
        return seen, removed

    def restart(self) -> None:
        """Begin at the start of the table with the next visit."""
        self._left = self.table.addresses()

    def purge(self, key: Any, namespace: Any, now_ms: int) -> int:
        """Remove what has expired of one key; how many entries or elements that were."""
        table, expired = self.table, self.ttl.expired
        if isinstance(table, SingleTable):
            if not expired(table.get(key, namespace), now_ms):
                return 0
            table.clear(key, namespace)
            return 1
        if isinstance(table, ListTable):
            items = table.get(key, namespace) or []
            live = [item for item in items if not expired(item, now_ms)]
            if len(live) < len(items):
                table.put(key, namespace, live)
            return len(items) - len(live)
        assert isinstance(table, MapTable)
        gone = [
            user_key
            for user_key in table.user_keys(key, namespace)
            if expired(table.get(key, namespace, user_key), now_ms)
        ]
        for user_key in gone:
            table.remove(key, namespace, user_key)
        return len(gone)


class SnapshotFilter:
    """Leaves expired values out of the rows of a snapshot.

    Args:
        layout: how the state's values are laid out.
        ttl: its rule.
        now_ms: the time of the asynchronous phase.
        marks_entries: an expired map entry becomes a null marker, as in RocksDB's savepoints,
            instead of going.
    """

    def __init__(self, layout: ValueLayout, ttl: Ttl, now_ms: int, *, marks_entries: bool) -> None:
        self._layout = layout
        self._now_ms = now_ms
        self._ttl = ttl
        self._marks = marks_entries

    def __call__(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows that stay."""
        layout, ttl, now = self._layout, self._ttl, self._now_ms
        for row in rows:
            if not row.value:
                continue  # an empty map
            if layout.kind is StateKind.LIST:
                items = cut(layout.decode_items(row.value), ttl, now)
                if items:
                    yield Row(row.key, layout.encode_items(items))
            elif not ttl.expired(layout.decode(row.value), now):
                yield row
            elif self._marks and layout.kind is StateKind.MAP:
                yield Row(row.key, NO_VALUE)


class CompactionFilter:
    """Judges rows of RocksDB one by one.

    The clock is read again after some rows, as Flink's filter does.
    """

    def __init__(self, layout: ValueLayout, ttl: Ttl, query_time_after: int) -> None:
        """A filter for rows of this layout."""
        self._layout = layout
        self._ttl = ttl
        self._each = max(query_time_after, 1)
        self._rows = 0
        self._now_ms = 0

    def _now(self) -> int:
        if self._rows % self._each == 0:
            self._now_ms = self._ttl.now_ms()
        self._rows += 1
        return self._now_ms

    def drops(self, value: bytes) -> bool:
        """Whether a row of a value or map entry has expired."""
        return self._ttl.expired(self._layout.decode(value), self._now())

    def merge(self, rows: list[Row]) -> list[Stored]:
        """The rows of one list, the merged one first, as one list without what has expired."""
        now, kept = self._now(), []
        for row in rows:
            kept += cut(self._layout.decode_items(row.value), self._ttl, now)
        return kept


def lists_in(rows: Iterator[Row], end_of_prefix: Callable[[bytes], int]) -> Iterator[list[Row]]:
    """Rows of list state, those of one list together."""
    together: list[Row] = []
    prefix = b""
    for row in rows:
        start = row.key[: end_of_prefix(row.key)]
        if together and start != prefix:
            yield together
            together = []
        prefix = start
        together.append(row)
    if together:
        yield together


def merged_row(together: list[Row], value: bytes) -> Row:
    """One row for a list."""
    return Row(together[0].key[: -len(MERGED)] + MERGED, value)

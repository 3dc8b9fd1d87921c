"""Flink's compaction filter, as walks: they merge lists, and drop expired values.

`compact()` does a whole walk, periodic cleanup does one in portions. Writes between portions may or
may not be visited, and are never lost.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol

from idlestate.state.cleanup import CompactionFilter, merged_row
from idlestate.state.errors import StorageError
from idlestate.state.key_groups import ALL_GROUPS
from idlestate.state.rocksdb.rocksdb_list import RocksDBListTable
from idlestate.state.rocksdb.rocksdb_table import RocksDBTable
from idlestate.state.ttl import Ttl
from idlestate.timers.clock import Clock

ROWS_A_SECOND: Final = 50_000
"""The maximum speed of a periodic walk: about a twentieth of its full speed."""

LEAST: Final = 1_000
MOST: Final = 10_000
"""Rows or lists of one portion: fewer are not worth the start, more would cause a pause."""


class CompactionWalk(Protocol):
    """A walk over one table from its beginning to its end."""

    def go_on(self, limit: int) -> bool:
        """Visit at most this many more rows or lists; return whether the end is reached."""


class RowCompaction:
    """Drops expired rows; the clock is read again after some rows, as in Flink's filter."""

    def __init__(self, table: RocksDBTable, ttl: Ttl, query_time_after: int) -> None:
        """A walk over a table of values or map entries."""
        self._walk, self._ttl = table.walk(), ttl
        self._each = max(query_time_after, 1)

    def go_on(self, limit: int) -> bool:
        """Visit at most this many more rows; return whether the end is reached."""
        while limit > 0:
            now_ms = self._ttl.now_ms()
            visit = self._walk.visit(min(limit, self._each), self._ttl.horizon_ms(now_ms))
            if visit.done:
                return True
            limit -= visit.seen
        return False


class ListCompaction:
    """Merges each list into one row, without the elements that the filter drops."""

    def __init__(self, table: RocksDBListTable, keep: CompactionFilter | None) -> None:
        """A walk over a table of lists; without a filter all elements stay."""
        self._table, self._keep = table, keep
        self._next = b""

    def go_on(self, limit: int) -> bool:
        """Visit at most this many more lists; return whether the end is reached."""
        table, keep, seen = self._table, self._keep, 0
        batch = table.batch()
        for together in islice(table.lists(ALL_GROUPS, self._next), limit):
            seen += 1
            self._next = table.behind(together)
            items = (
                b"".join(row.value for row in together)
                if keep is None
                else table.layout.encode_items(keep.merge(together))
            )
            if together == [merged_row(together, items)]:
                continue
            for row in together:
                batch.delete(row.key)
            if items:
                batch.put(*merged_row(together, items))
        table.write(batch)
        return seen < limit


def compaction_of(table: RocksDBTable, ttl: Ttl | None) -> CompactionWalk | None:
    """The walk over a table; None if it would change nothing."""
    cleanup = None if ttl is None else ttl.config.compaction_in_force
    if ttl is not None and cleanup is not None:
        return filtering(table, ttl, cleanup.query_time_after)
    return ListCompaction(table, None) if isinstance(table, RocksDBListTable) else None


def filtering(table: RocksDBTable, ttl: Ttl, query_time_after: int) -> CompactionWalk:
    """The walk over a table that drops expired values."""
    if isinstance(table, RocksDBListTable):
        return ListCompaction(table, CompactionFilter(table.layout, ttl, query_time_after))
    return RowCompaction(table, ttl, query_time_after)


class PeriodicCleanup:
    """Starts a walk once per period, and does it in portions during accesses to the state.

    An access does the work for the time since the previous one, at `ROWS_A_SECOND`. So an expired
    value is removed at most one period later, as long as the state is used.
    """

    def __init__(
        self,
        begin: Callable[[], CompactionWalk],
        period_ms: int,
        clock: Clock,
        last_ms: int,
        record: Callable[[int], None],
    ) -> None:
        """A cleanup between walks.

        Args:
            begin: creates a walk.
            period_ms: from the start of one walk to the start of the next, above 0.
            clock: measures the period.
            last_ms: when the last finished walk started.
            record: stores this time durably.
        """
        self._begin, self._period_ms, self._clock = begin, period_ms, clock
        self._last_ms, self._record = last_ms, record
        self._walk: CompactionWalk | None = None
        self._begun_ms = last_ms
        self._at_s = clock.monotonic_s()

    def step(self) -> None:
        """Called by each access to the state."""
        passed_s = self._clock.monotonic_s() - self._at_s
        limit = int(passed_s * ROWS_A_SECOND)
        if limit < LEAST:
            return
        self._at_s += passed_s
        with suppress(StorageError):  # the access itself raises the error; the walk stays
            self._go_on(min(limit, MOST))

    def _go_on(self, limit: int) -> None:
        if self._walk is None:
            now_ms = self._clock.now_ms()
            self._last_ms = min(self._last_ms, now_ms)  # the clock may have been set back
            if now_ms - self._last_ms < self._period_ms:
                return
            self._walk, self._begun_ms = self._begin(), now_ms
        if self._walk.go_on(limit):
            self._walk, self._last_ms = None, self._begun_ms
            self._record(self._begun_ms)

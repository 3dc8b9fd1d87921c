"""Flink's compaction filter, as walks: they merge lists, and drop expired values.

`compact()` does a whole walk, periodic cleanup does one in portions. Writes between portions may or
may not be visited, and are never lost.
"""

from itertools import islice
from typing import Protocol

from idlestate.state.cleanup import CompactionFilter, merged_row
from idlestate.state.key_groups import ALL_GROUPS
from idlestate.state.rocksdb.rocksdb_list import RocksDBListTable
from idlestate.state.rocksdb.rocksdb_table import RocksDBTable
from idlestate.state.ttl_layer import Ttl


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
            now_ms = self._ttl.clock_ms()
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

"""A walk over a list or map state on runs: over the rows, and then over the second table."""

import sys
from typing import TYPE_CHECKING

import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.backends.runs.byte_index import ByteIndex
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.retention.policy import FOREVER_MS
from idlestate.state.runs.entry_rows import parts_of
from idlestate.state.table import Removed, Visit, Walk

if TYPE_CHECKING:
    from idlestate.state.runs.runs_items import RunsItemsTable


class EntriesWalk(Walk):
    """A walk that loads only removed entries into memory."""

    def __init__(self, table: "RunsItemsTable", rows: Walk) -> None:
        """A walk from the beginning.

        Args:
            table: the table.
            rows: a walk over its rows.
        """
        self._table, self._rows = table, rows
        self._rows_done = False
        self._since: int | None = LOWEST_HASH
        self._at = 0
        self._index: ByteIndex | None = None

    def visit(self, limit: int, horizon_ms: int, removed: Removed | None = None) -> Visit:
        """Visit at most this many rows of both tables together."""
        visit = Visit()
        if not self._rows_done:
            visit = self._rows.visit(limit, horizon_ms, removed)
            self._rows_done, visit.done = visit.done, False
        if self._rows_done and visit.seen < limit:
            self._visit_entries(limit - visit.seen, horizon_ms, visit, removed)
        return visit

    def _visit_entries(
        self, limit: int, horizon_ms: int, visit: Visit, removed: Removed | None
    ) -> None:
        entries, working = self._table.entries, self._table.working
        limit += visit.seen
        if self._since is not None and working.is_full:
            # They must be visited now: when they are written back, the walk may be past them.
            self._visit_memory(sys.maxsize, horizon_ms, visit, removed)
            visit.done, self._index = False, None
            working.spill()
        while self._since is not None and visit.seen < limit:
            rows, self._since = entries.stored.open_rows(self._since, limit - visit.seen)
            visit.seen += len(rows)
            self._visit_stored(rows, horizon_ms, visit, removed)
        if self._since is None:
            self._visit_memory(limit - visit.seen, horizon_ms, visit, removed)

    def _visit_stored(
        self, rows: Rows, horizon_ms: int, visit: Visit, removed: Removed | None
    ) -> None:
        entries = self._table.entries
        names, found = entries.below(rows)
        assert found.stamps is not None
        is_old = found.there & (found.stamps <= horizon_ms)
        kept_ms = found.stamps[found.there & ~is_old]
        visit.oldest_ms = min(visit.oldest_ms, int(kept_ms.min(initial=FOREVER_MS)))
        if is_old.any():
            self._remove(entries.numbers(names.filter(pa.array(is_old))), visit, removed)

    def _visit_memory(
        self, limit: int, horizon_ms: int, visit: Visit, removed: Removed | None
    ) -> None:
        entries = self._table.entries
        if self._index is None:
            self._index, self._at = entries.index, 0
        if self._index is not entries.index:
            # Entries were written back: the next walk visits them.
            visit.done = True
            return
        end = min(self._at + limit, entries.index.count)
        numbers = entries.in_memory(self._at, end)
        found = entries.at(numbers)
        assert found.stamps is not None
        is_old = found.there & (found.stamps <= horizon_ms)
        kept_ms = found.stamps[found.there & ~is_old]
        visit.oldest_ms = min(visit.oldest_ms, int(kept_ms.min(initial=FOREVER_MS)))
        visit.seen += end - self._at
        self._at, visit.done = end, end == entries.index.count
        if is_old.any():
            self._remove(numbers[is_old], visit, removed)

    def _remove(self, numbers: Positions, visit: Visit, removed: Removed | None) -> None:
        table = self._table
        prefixes, user_keys = parts_of(table.entries.rows(numbers))
        visit.removed += len(numbers)
        if removed is not None:
            for prefix in prefixes.to_pylist():
                _, key, namespace, _ = table.key_layout.split(prefix)
                removed.keys.append(key)
                removed.namespaces.append(namespace)
            if table.layout.user_key is not None:
                names = map(table.layout.decode_user_key, user_keys.to_pylist())
                removed.user_keys.extend(names)
            removed.stored.extend(table.entries.at(numbers).stored())
        table.entries.remove(numbers)
        table.count_out(prefixes)

"""A walk over a table on runs: first the rows below the working set, then those in it."""

import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Flags
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.retention.policy import FOREVER_MS
from idlestate.state.runs import cell_bytes
from idlestate.state.runs.cell_bytes import Items
from idlestate.state.table import Removed, Visit, Walk

if TYPE_CHECKING:
    from idlestate.state.runs.runs_table import RunsTable


class StoredWalk(Walk):
    """A walk that loads only rows with removed data into the working set."""

    def __init__(self, table: "RunsTable") -> None:
        """A walk from the beginning."""
        self._table = table
        self._since: int | None = LOWEST_HASH
        self._front = table.front
        self._in_memory: Walk | None = None

    def visit(self, limit: int, horizon_ms: int, removed: Removed | None = None) -> Visit:
        """Visit at most this many rows."""
        visit = Visit()
        working = self._table.working
        if self._since is not None and working.is_full:
            # They must be visited now: when they are written back, the walk may be past them.
            self._visit_memory(sys.maxsize, horizon_ms, visit, removed)
            visit.done, self._in_memory = False, None
            working.spill()
        while self._since is not None and visit.seen < limit:
            rows, self._since = working.stored.open_rows(self._since, limit - visit.seen)
            visit.seen += len(rows)
            self._visit_stored(rows, horizon_ms, visit, removed)
        if visit.seen < limit:
            self._visit_memory(limit - visit.seen, horizon_ms, visit, removed)
        return visit

    def _visit_stored(
        self, rows: Rows, horizon_ms: int, visit: Visit, removed: Removed | None
    ) -> None:
        table = self._table
        prefixes, items = table.below(rows)
        stamps = items.cells.stamps
        assert stamps is not None
        is_old = items.cells.there & (stamps <= horizon_ms)
        kept_ms = stamps[items.cells.there & ~is_old]
        visit.oldest_ms = min(visit.oldest_ms, int(kept_ms.min(initial=FOREVER_MS)))
        if not is_old.any():
            return
        touched = np.zeros(len(prefixes), dtype=np.bool_)
        touched[items.owners[is_old]] = True
        visit.removed += int(is_old.sum())
        if removed is not None:
            self._keep(prefixes, items, is_old, removed)
        left = items.where(~is_old & touched[items.owners])
        there = (left.sizes > 0)[touched]
        fewer = Items(left.sizes[left.sizes > 0], left.cells, left.user_keys)
        table.working.put(
            prefixes.filter(pa.array(touched)),
            table.family,
            cell_bytes.encode(table.layout, fewer, there),
        )

    def _keep(
        self, prefixes: pa.BinaryArray, items: Items, is_old: Flags, removed: Removed
    ) -> None:
        table = self._table
        owners = prefixes.take(pa.array(items.owners[is_old]))
        for prefix in owners.to_pylist():
            _, key, namespace, _ = table.key_layout.split(prefix)
            removed.keys.append(key)
            removed.namespaces.append(namespace)
        gone = items.where(is_old)
        if gone.user_keys is not None:
            removed.user_keys.extend(map(table.layout.decode_user_key, gone.user_keys.to_pylist()))
        removed.stored.extend(gone.cells.stored())

    def _visit_memory(
        self, limit: int, horizon_ms: int, visit: Visit, removed: Removed | None
    ) -> None:
        table = self._table
        if self._in_memory is None:
            table.open_all()
            self._front, self._in_memory = table.front, table.front.walk()
        if self._front is not table.front:
            # Rows were written back: the next walk visits them. Starting again might never end.
            visit.done = True
            return
        mine = Removed.nothing()
        found = self._in_memory.visit(limit, horizon_ms, mine)
        if mine.keys:
            table.working.mark(pa.array(mine.keys, pa.binary()))
        if removed is not None:
            for prefix in mine.keys:
                _, key, namespace, _ = table.key_layout.split(prefix)
                removed.keys.append(key)
                removed.namespaces.append(namespace)
            removed.user_keys.extend(mine.user_keys)
            removed.stored.extend(mine.stored)
        visit.seen += found.seen
        visit.removed += found.removed
        visit.oldest_ms = min(visit.oldest_ms, found.oldest_ms)
        visit.done = found.done

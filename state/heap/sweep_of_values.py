"""A walk over one value per key on heap."""

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.state.key_batch import KeyBatch
from idlestate.state.table import Removed, Visit, Walk

if TYPE_CHECKING:
    from idlestate.state.heap.values_table import HeapSingleTable


class SingleWalk(Walk):
    """A walk over the dicts, then over the columns."""

    def __init__(self, table: "HeapSingleTable") -> None:
        """A walk from the beginning."""
        self._table = table
        self._front = iter([(name, key) for name, each in table.front.items() for key in each])
        self._at = 0
        self._made = table.columns.made

    def visit(self, limit: int, horizon_ms: int, removed: Removed | None = None) -> Visit:
        """Visit at most this many keys."""
        visit = Visit()
        if removed is not None:
            self._table.settle()
        else:
            self._visit_front(limit, horizon_ms, visit)
        if visit.seen < limit:
            self._visit_columns(limit - visit.seen, horizon_ms, visit, removed)
        return visit

    def _visit_front(self, limit: int, horizon_ms: int, visit: Visit) -> None:
        table = self._table
        for namespace, key in islice(self._front, limit):
            stored = table.front.get(namespace, {}).get(key)
            visit.seen += 1
            if not isinstance(stored, tuple):
                continue  # removed since, or without a timestamp
            if stored[1] <= horizon_ms:
                table.clear(key, namespace)
                visit.removed += 1
            else:
                visit.oldest_ms = min(visit.oldest_ms, stored[1])

    def _visit_columns(
        self, limit: int, horizon_ms: int, visit: Visit, removed: Removed | None
    ) -> None:
        columns = self._table.columns
        if self._made != columns.made:  # renumbered since
            self._at, self._made = 0, columns.made
        while limit > 0 and self._at < columns.index.count:
            end = min(self._at + limit, columns.index.count)
            numbers = self._at + np.flatnonzero(columns.index.alive[self._at : end])
            dated, stamps = columns.stamped(numbers)
            is_old = stamps <= horizon_ms
            old = dated[is_old]
            visit.oldest_ms = int(stamps[~is_old].min(initial=visit.oldest_ms))
            if removed is not None:
                self._keep(old, removed)
            visit.seen += len(numbers)
            visit.removed += len(old) - self._table.in_front(old)
            columns.take_out(old)
            limit -= len(numbers)
            self._at = end
        visit.done = self._at >= columns.index.count
        if visit.done:
            columns.compact_if_sparse()

    def _keep(self, numbers: Positions, removed: Removed) -> None:
        columns = self._table.columns
        removed.keys.extend(KeyBatch(self._table.key_layout.key, columns.keys(numbers)).keys)
        names = columns.spaces.names
        removed.namespaces.extend([names[each] for each in columns.index.spaces[numbers].tolist()])
        removed.stored.extend(columns.at(numbers).stored())

"""A walk over lists or maps on heap."""

from typing import TYPE_CHECKING

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.state.key_batch import KeyBatch
from idlestate.state.table import Removed, Visit, Walk

if TYPE_CHECKING:
    from idlestate.state.heap.heap_items import ItemsTable


class ItemsWalk(Walk):
    """A walk over the columns, item by item, then over the keys in dicts at that time."""

    def __init__(self, table: "ItemsTable") -> None:
        """A walk from the beginning."""
        self._table = table
        self._at, self._made = 0, table.columns.made
        self._left: list[tuple[object, object]] | None = None
        self._removed = 0

    def visit(self, limit: int, horizon_ms: int, removed: Removed | None = None) -> Visit:
        """Visit at most this many items or keys."""
        visit, columns = Visit(), self._table.columns
        if self._made != columns.made:  # renumbered since
            self._at, self._made = 0, columns.made
        while visit.seen < limit and self._at < columns.count:
            self._visit_columns(limit - visit.seen, horizon_ms, visit, removed)
        if visit.seen < limit:
            self._visit_dicts(limit - visit.seen, horizon_ms, visit, removed)
        self._removed += visit.removed
        if visit.done:
            columns.compact_if_sparse()
            if self._removed > 3 * self._table.size():
                self._table.shrink()
        return visit

    def _visit_columns(
        self, limit: int, horizon_ms: int, visit: Visit, removed: Removed | None
    ) -> None:
        columns = self._table.columns
        end = min(self._at + limit, columns.count)
        old, seen, oldest_ms = columns.old(self._at, end, horizon_ms)
        self._at = end
        visit.seen += seen
        visit.removed += len(old)
        visit.oldest_ms = min(visit.oldest_ms, oldest_ms)
        if len(old):
            if removed is not None:
                self._keep(old, removed)
            columns.remove(old)

    def _keep(self, items: Positions, removed: Removed) -> None:
        keys, namespaces = self._table.columns.owners_of(items)
        removed.keys.extend(KeyBatch(self._table.key_layout.key, keys).keys)
        removed.namespaces.extend(namespaces)
        removed.user_keys.extend(self._table.user_keys_of(items))
        removed.stored.extend(self._table.columns.at(items).stored())

    def _visit_dicts(
        self, limit: int, horizon_ms: int, visit: Visit, removed: Removed | None
    ) -> None:
        table, seen = self._table, 0
        if self._left is None:
            self._left = table.addresses()[::-1]
        while self._left and seen < limit:
            key, namespace = self._left.pop()
            seen += 1
            stamps = [item[1] for item in table.items(key, namespace) if item]
            if stamps and min(stamps) <= horizon_ms:
                visit.removed += table.expel(key, namespace, horizon_ms, removed)
                stamps = [stamp for stamp in stamps if stamp > horizon_ms]
            if stamps:
                visit.oldest_ms = min(visit.oldest_ms, *stamps)
        visit.seen += seen
        visit.done = not self._left

"""A list per key in RocksDB: one merged row, and one row for each later append."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow.compute as pc
from rocksdict import Rdict

from idlestate.backends.runs.byte_arrays import Positions, fixed_width, order_of
from idlestate.state.batch_values import Column, Stored
from idlestate.state.byte_layout import MERGED, SEQUENCE, ValueLayout
from idlestate.state.cleanup import lists_in, merged_row
from idlestate.state.key_batch import KeyBatch
from idlestate.state.key_groups import ALL_GROUPS, KeyGroupRange
from idlestate.state.rocksdb.rocksdb_table import RocksDBTable
from idlestate.state.row_keys import KeyLayout
from idlestate.state.table import ListTable, Removed, Row, Visit, Walk

LAST = b"\xff" * (SEQUENCE.size + 1)
"""After the number of any append."""


class RocksDBListTable(RocksDBTable, ListTable):
    """A list per key."""

    _keeps_bare_rows = False

    def __init__(self, database: Rdict, name: str, keys: KeyLayout, layout: ValueLayout) -> None:
        """The table in this column family; appends continue the numbers of its newest one."""
        super().__init__(database, name, keys, layout)
        self._next = database.latest_sequence_number() + 1

    def size(self) -> int:
        """Lists."""
        return sum(1 for _ in self.addresses())

    def rows(self, groups: KeyGroupRange) -> Iterator[Row]:
        """All rows of these key groups, one for each list."""
        for together in self.lists(groups):
            yield merged_row(together, b"".join(row.value for row in together))

    def lists(self, groups: KeyGroupRange, start: bytes = b"") -> Iterator[list[Row]]:
        """Stored rows from `start` on, grouped by list."""
        return lists_in(self.stored_rows(groups, start), self.key_layout.end_of_prefix)

    def behind(self, together: list[Row]) -> bytes:
        """The position of the next list, after any appends to this one in the meantime."""
        row = together[0].key
        return row[: self.key_layout.end_of_prefix(row)] + LAST

    def get(self, key: Any, namespace: Any) -> list[Stored] | None:
        """The list; None if there is none."""
        items: list[Stored] = []
        for _, row in self.scan(self.key_layout.prefix(key, namespace)):
            items += self.layout.decode_items(row)
        return items or None

    def put(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Replace the list; an empty list is removed."""
        prefix = self.key_layout.prefix(key, namespace)
        data = self.layout.encode_items(items)
        batch = self.batch()
        for row, _ in self.scan(prefix):
            batch.delete(row)
        if items:
            batch.put(prefix + MERGED, data)
        self.write(batch)

    def append(self, key: Any, namespace: Any, items: list[Stored]) -> None:
        """Append items."""
        prefix = self.key_layout.prefix(key, namespace)
        self.put_row(prefix + SEQUENCE.pack(self._next), self.layout.encode_items(items))
        self._next += 1

    def append_many(self, keys: KeyBatch, namespace: Any, values: Column, stamp_ms: int) -> None:
        """`append` of one item for each key, all or none."""
        count = len(keys)
        numbers = fixed_width(np.arange(self._next, self._next + count, dtype=">u8"))
        prefixes = self.key_layout.prefixes(keys, namespace)
        rows = pc.binary_join_element_wise(prefixes, numbers, b"")
        order = order_of(rows)
        data = self.layout.encode_each_item(values[order.to_numpy()], stamp_ms)
        batch = self.batch()
        for row, value in zip(rows.take(order).to_pylist(), data, strict=True):
            batch.put(row, value)
        self.write(batch)
        self._next += count

    def _stamps_in(self, values: list[bytes]) -> Positions:
        decode = self.layout.decode_items
        return np.array([stamp for row in values for _, stamp in decode(row)], dtype=np.int64)

    def walk(self) -> Walk:
        """A walk from the beginning."""
        return ListWalk(self)


class ListWalk(Walk):
    """A walk over lists that removes expired elements anywhere in them."""

    def __init__(self, table: RocksDBListTable) -> None:
        """A walk from the beginning."""
        self._table = table
        self._next = b""

    def visit(self, limit: int, horizon_ms: int, removed: Removed | None = None) -> Visit:
        """Visit at most this many lists."""
        table, layout, visit = self._table, self._table.layout, Visit()
        batch = table.batch()
        for rows in islice(table.lists(ALL_GROUPS, self._next), limit):
            visit.seen += 1
            self._next = table.behind(rows)
            items = [item for row in rows for item in layout.decode_items(row.value)]
            live = [item for item in items if item[1] > horizon_ms]
            if len(live) == len(items):
                continue
            visit.removed += len(items) - len(live)
            for row in rows:
                batch.delete(row.key)
                table.swept_bytes += len(row.key) + len(row.value)
            if live:
                batch.put(*merged_row(rows, layout.encode_items(live)))
            if removed is not None:
                _, key, namespace, _ = table.key_layout.split(rows[0].key)
                old = [item for item in items if item[1] <= horizon_ms]
                removed.keys.extend([key] * len(old))
                removed.namespaces.extend([namespace] * len(old))
                removed.stored.extend(old)
        table.write(batch)
        visit.done = visit.seen < limit
        return visit

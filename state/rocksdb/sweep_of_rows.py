"""A walk over rows of RocksDB that each have one timestamp: values and map entries."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from rocksdict import WriteBatch

from idlestate.backends.runs.byte_arrays import Flags
from idlestate.state.table import Removed, Row, Visit, Walk

if TYPE_CHECKING:
    from idlestate.state.rocksdb.rocksdb_table import RocksDBTable

RANGE = 256
"""From this number of adjacent old rows on, one range delete replaces single deletes."""


class RowWalk(Walk):
    """A walk over rows that each have one timestamp."""

    def __init__(self, table: "RocksDBTable") -> None:
        """A walk from the beginning."""
        self._table = table
        self._next = b""

    def visit(self, limit: int, horizon_ms: int, removed: Removed | None = None) -> Visit:
        """Visit at most this many rows."""
        table, keys, values = self._table, [], []
        for key, value in islice(table.scan_from(self._next), limit):
            keys.append(key)
            values.append(value)
        flags, stamps = table.layout.heads(values)
        is_old = flags & (stamps <= horizon_ms)
        table.write(self._deletes(keys, is_old))
        old = np.flatnonzero(is_old).tolist()
        table.swept_bytes += sum([len(keys[at]) + len(values[at]) for at in old])
        if removed is not None:
            self._keep([Row(keys[at], values[at]) for at in old], removed)
        if keys:
            self._next = keys[-1] + b"\0"
        return Visit(len(keys), len(old), done=len(keys) < limit)

    def _deletes(self, keys: Sequence[bytes], is_old: Flags) -> WriteBatch:
        """Remove long sequences of old rows by range, the others one by one."""
        batch = self._table.batch()
        edges = np.flatnonzero(np.diff(np.concatenate(([False], is_old, [False])))).tolist()
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            if end - start < RANGE:
                for key in keys[start:end]:
                    batch.delete(key)
            else:
                self._table.delete_range(batch, keys[start], keys[end - 1])
        return batch

    def _keep(self, rows: list[Row], removed: Removed) -> None:
        layout, split = self._table.layout, self._table.key_layout.split
        for row, _ in rows:
            _, key, namespace, rest = split(row)
            removed.keys.append(key)
            removed.namespaces.append(namespace)
            if layout.user_key is not None:
                removed.user_keys.append(layout.decode_user_key(rest))
        removed.stored.extend(layout.decode_many([value for _, value in rows]).stored())

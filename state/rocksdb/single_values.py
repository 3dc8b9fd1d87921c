"""One row per key in RocksDB: value, reducing and aggregating state."""

from typing import Any

import numpy as np

from idlestate.backends.runs.byte_arrays import Flags, Positions, order_of
from idlestate.state.batch_values import Cells, Column, Stored
from idlestate.state.key_batch import KeyBatch
from idlestate.state.rocksdb.rocksdb_table import RocksDBTable
from idlestate.state.table import SingleTable


class RocksDBSingleTable(RocksDBTable, SingleTable):
    """One stored value per key."""

    def get(self, key: Any, namespace: Any) -> Stored:
        """The stored value; None if there is none."""
        row = self.read(self.key_layout.prefix(key, namespace))
        return None if row is None else self.layout.decode(row)

    def put(self, key: Any, namespace: Any, stored: Stored) -> None:
        """Store.

        Raises:
            NullValueError: there is no value to store.
        """
        row = self.layout.encode_present(stored)
        self.put_row(self.key_layout.prefix(key, namespace), row)

    def clear(self, key: Any, namespace: Any) -> None:
        """Remove the key's value in the namespace."""
        self.delete_row(self.key_layout.prefix(key, namespace))

    def _ordered(self, keys: KeyBatch, namespace: Any) -> tuple[list[bytes], Positions]:
        """The rows of a batch in row order, and the key of each."""
        prefixes = self.key_layout.prefixes(keys, namespace)
        order = order_of(prefixes)
        return prefixes.take(order).to_pylist(), order.to_numpy().astype(np.int64)

    def get_many(self, keys: KeyBatch, namespace: Any) -> Cells:
        """`get` of many keys."""
        rows, order = self._ordered(keys, namespace)
        found = self.layout.decode_many(self.read(rows) if rows else [])
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return found.take(back)

    def put_many(
        self, keys: KeyBatch, namespace: Any, values: Column, has: Flags, stamp_ms: int
    ) -> None:
        """For many keys, store a value, or `clear` if there is none; all or none."""
        rows, order = self._ordered(keys, namespace)
        batch, ordered = self.batch(), has[order]
        data = self.layout.encode_many(values[order], ordered, stamp_ms)
        if has.all():
            for row, value in zip(rows, data, strict=True):
                batch.put(row, value)
        else:
            for row, value, each in zip(rows, data, ordered.tolist(), strict=True):
                if each:
                    batch.put(row, value)
                else:
                    batch.delete(row)
        self.write(batch)

    def restamp(self, keys: KeyBatch, namespace: Any, found: Cells, stamp_ms: int) -> None:
        """Set a new timestamp for values that were just found; all or none."""
        self.put_many(keys, namespace, found.values, found.has, stamp_ms)

    def _clear(self, prefixes: list[bytes]) -> None:
        batch = self.batch()
        for prefix in prefixes:
            batch.delete(prefix)
        self.write(batch)

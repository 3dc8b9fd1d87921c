"""A map per key in RocksDB, one row per entry."""

from typing import Any

import numpy as np
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Flags, Positions, order_of
from idlestate.state.batch_values import Cells, Column, Stored
from idlestate.state.byte_layout import NO_VALUE
from idlestate.state.key_batch import KeyBatch
from idlestate.state.rocksdb.rocksdb_table import RocksDBTable
from idlestate.state.table import MapTable


class RocksDBMapTable(RocksDBTable, MapTable):
    """A map per key."""

    _keeps_bare_rows = False

    def _row(self, key: Any, namespace: Any, user_key: Any) -> bytes:
        return self.key_layout.prefix(key, namespace) + self.layout.encode_user_key(user_key)

    def _encode(self, stored: Stored) -> bytes:
        # Without timestamps, a null marker represents None, as in Flink.
        layout = self.layout
        return layout.encode_present(stored) if layout.stamped else layout.encode(stored)

    def has(self, key: Any, namespace: Any, user_key: Any) -> bool:
        """Whether there is an entry, with or without a value."""
        return self.read(self._row(key, namespace, user_key)) is not None

    def get(self, key: Any, namespace: Any, user_key: Any) -> Stored:
        """The entry's value; None if there is none."""
        row = self.read(self._row(key, namespace, user_key))
        return None if row is None else self.layout.decode(row)

    def put_all(self, key: Any, namespace: Any, entries: dict[Any, Stored]) -> None:
        """Set entries, all or none."""
        batch, prefix = self.batch(), self.key_layout.prefix(key, namespace)
        for user_key, stored in entries.items():
            batch.put(prefix + self.layout.encode_user_key(user_key), self._encode(stored))
        self.write(batch)

    def remove(self, key: Any, namespace: Any, user_key: Any) -> None:
        """Remove an entry."""
        self.delete_row(self._row(key, namespace, user_key))

    discard = remove

    def user_keys(self, key: Any, namespace: Any) -> list[Any]:
        """Keys of the entries."""
        prefix = self.key_layout.prefix(key, namespace)
        decode, at = self.layout.decode_user_key, len(prefix)
        return [decode(row[at:]) for row, _ in self.scan(prefix)]

    def is_empty(self, key: Any, namespace: Any) -> bool:
        """Whether nothing is stored, expired or not."""
        return next(self.scan(self.key_layout.prefix(key, namespace)), None) is None

    def _rows(
        self, keys: KeyBatch, namespace: Any, user_keys: KeyBatch
    ) -> tuple[list[bytes], Positions]:
        """The rows of a batch in row order, and the entry of each."""
        prefixes = self.key_layout.prefixes(keys, namespace)
        rows = pc.binary_join_element_wise(prefixes, user_keys.encoded, b"")
        order = order_of(rows)
        return rows.take(order).to_pylist(), order.to_numpy().astype(np.int64)

    def get_many(self, keys: KeyBatch, namespace: Any, user_keys: KeyBatch) -> Cells:
        """`get` of many entries."""
        rows, order = self._rows(keys, namespace, user_keys)
        found = self.layout.decode_many(self.read(rows) if rows else [])
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return found.take(back)

    def put_many(
        self,
        keys: KeyBatch,
        namespace: Any,
        user_keys: KeyBatch,
        values: Column,
        has: Flags,
        stamp_ms: int,
    ) -> None:
        """Set one entry for each of many keys, all or none."""
        if not has.all():
            self._encode((None, stamp_ms) if self.layout.stamped else None)  # refuses a None
        rows, order = self._rows(keys, namespace, user_keys)
        batch, ordered = self.batch(), has[order]
        data = self.layout.encode_many(values[order], ordered, stamp_ms)
        for row, value, each in zip(rows, data, ordered.tolist(), strict=True):
            batch.put(row, value if each else NO_VALUE)
        self.write(batch)

    def remove_many(self, keys: KeyBatch, namespace: Any, user_keys: KeyBatch) -> None:
        """`remove` of one entry for each of many keys, all or none."""
        batch = self.batch()
        for row in self._rows(keys, namespace, user_keys)[0]:
            batch.delete(row)
        self.write(batch)

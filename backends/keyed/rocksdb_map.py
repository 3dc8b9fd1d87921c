"""A map per key in RocksDB, one row per entry."""

from collections.abc import Sequence
from typing import Any

from idlestate.backends.keyed.cells import Stored
from idlestate.backends.keyed.key_batch import KeyBatch
from idlestate.backends.keyed.rocksdb_table import RocksDBTable
from idlestate.backends.keyed.table import MapTable


class RocksDBMapTable(RocksDBTable, MapTable):
    """A map per key."""

    _keeps_bare_rows = False

    def _row(self, key: Any, namespace: Any, user_key: Any) -> bytes:
        return self.key_layout.prefix(key, namespace) + self.layout.encode_user_key(user_key)

    def _encode(self, stored: Stored) -> bytes:
        # Without timestamps a null marker stands for None, as in Flink.
        layout = self.layout
        return layout.encode_present(stored) if layout.stamped else layout.encode(stored)

    def has(self, key: Any, namespace: Any, user_key: Any) -> bool:
        """Whether there is an entry, also one without a value."""
        return self.read(self._row(key, namespace, user_key)) is not None

    def get(self, key: Any, namespace: Any, user_key: Any) -> Stored:
        """The entry's value, None when there is none."""
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

    def _rows(self, keys: KeyBatch, namespace: Any, user_keys: Sequence[Any]) -> list[bytes]:
        prefixes, encode = self.key_layout.prefixes(keys, namespace), self.layout.encode_user_key
        return [
            prefix + encode(each)
            for prefix, each in zip(prefixes.to_pylist(), user_keys, strict=True)
        ]

    def get_many(self, keys: KeyBatch, namespace: Any, user_keys: Sequence[Any]) -> list[Stored]:
        """`get` of many entries."""
        rows = self._rows(keys, namespace, user_keys)
        distinct = sorted(set(rows))
        stored = self.layout.decode_many(self.read(distinct) if distinct else []).stored()
        found = dict(zip(distinct, stored, strict=True))
        return [found[row] for row in rows]

    def put_many(
        self,
        keys: KeyBatch,
        namespace: Any,
        user_keys: Sequence[Any],
        stored: Sequence[Stored],
    ) -> None:
        """Set one entry for each of many keys, all or none."""
        batch, encode = self.batch(), self._encode
        entries = dict(zip(self._rows(keys, namespace, user_keys), stored, strict=True))
        for row in sorted(entries):
            batch.put(row, encode(entries[row]))
        self.write(batch)

    def remove_many(self, keys: KeyBatch, namespace: Any, user_keys: Sequence[Any]) -> None:
        """`remove` of one entry for each of many keys, all or none."""
        batch = self.batch()
        for row in self._rows(keys, namespace, user_keys):
            batch.delete(row)
        self.write(batch)

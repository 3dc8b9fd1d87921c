"""Rows of a table: the lives of keys as columns, in order of the keys' hashes.

A row whose `written_at_ms` is `NEVER_MS` is a tombstone: the key is removed, even if older runs
have it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, join, slice_field, take
from idlestate.backends.runs.keys import take_keys
from idlestate.backends.runs.table_schema import TableSchema
from idlestate.retention.lives import Lives
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """Lives of m keys: hashes, keys, times, and payload columns."""

    hashes: Ints
    keys: list[pa.Array]
    lives: Lives
    payload: list[Field]

    @classmethod
    def empty(cls, schema: TableSchema) -> "Rows":
        """No rows."""
        none = np.zeros(0, dtype=np.int64)
        keys = [pa.array([], kind) for _, kind in schema.keys]
        payload = [column.blanks(0) for column in schema.columns]
        return cls(none, keys, Lives(none, none, none, none), payload)

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and the payload."""
        return sum(field.nbytes for field in (*self.keys, *self.payload))

    @property
    def are_tombstones(self) -> Flags:
        """Which rows are tombstones."""
        found: Flags = self.lives.written_at_ms == NEVER_MS
        return found

    def take(self, rows: npt.NDArray[Any]) -> "Rows":
        """The rows at these positions, or under this mask."""
        if rows.dtype == bool:
            return self if rows.all() else self.take(np.flatnonzero(rows))
        return Rows(
            self.hashes[rows],
            take_keys(self.keys, rows),
            self.lives.take(rows),
            [take(field, rows) for field in self.payload],
        )

    def slice(self, begin: int, stop: int) -> "Rows":
        """The rows begin..stop, without a copy."""
        return Rows(
            self.hashes[begin:stop],
            [column.slice(begin, stop - begin) for column in self.keys],
            Lives(*(column[begin:stop] for column in self.lives.columns)),
            [slice_field(field, begin, stop) for field in self.payload],
        )

    @staticmethod
    def gathered(parts: Sequence["Rows"], rows: Ints | None = None) -> "Rows":
        """The rows at positions in the concatenated parts (at least one); None: all rows in
        order.
        """
        if rows is None and len(parts) == 1:
            return parts[0]

        def gather(columns: Sequence[Field]) -> Field:
            joined = join(columns)
            return joined if rows is None else take(joined, rows)

        first = parts[0]
        lives = Lives.joined([part.lives for part in parts])
        return Rows(
            np.asarray(gather([part.hashes for part in parts])),
            [gather([part.keys[at] for part in parts]) for at in range(len(first.keys))],
            lives if rows is None else lives.take(rows),
            [gather([part.payload[at] for part in parts]) for at in range(len(first.payload))],
        )

"""The interface of the sidecar's stores: ordered keys and values with atomic writes.

All code above it is the same for heap and RocksDB. Keys are paths such as `m/clicks/00003`.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

Changes = Mapping[str, bytes | None]
"""The changes of one write: new values by key; None removes the key."""


class Store(Protocol):
    """An ordered map that survives a crash of its process."""

    @property
    def is_broken(self) -> bool:
        """Whether it accepts no more writes until it is opened again."""

    def is_mended(self) -> bool:
        """Whether the disk has space for the writes of opening it again."""

    def get(self, key: str) -> bytes | None:
        """The value of a key; None if there is none."""

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Keys with this prefix, in order, with their values."""

    def write(self, changes: Changes) -> None:
        """Make these changes atomically; they are durable when this returns.

        Raises:
            DiskFullError: the disk is full; nothing has changed.
            DamagedDirectoryError: the disk is broken; nothing has changed.

        After either error, a store whose state on disk is unknown accepts no more writes until it
        is opened again.
        """

    def bytes_on_disk(self) -> int:
        """Its bytes on disk."""

    def properties(self) -> Mapping[str, int]:
        """RocksDB's properties, named as in `metrics/rocksdb_metrics.py`; else empty."""

    def close(self) -> None:
        """Close the files; a second call does nothing."""

"""Where the sidecar keeps its bytes: keys and values in order of key, changed all or none.

Everything above is the same for heap and RocksDB. Keys are paths such as `m/clicks/00003`.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

Changes = Mapping[str, bytes | None]
"""What one write does: new values by key; None removes the key."""


class Store(Protocol):
    """An ordered map that survives the death of its process."""

    @property
    def is_broken(self) -> bool:
        """Whether it takes no more writes until it is opened again."""

    def is_mended(self) -> bool:
        """Whether the disk takes what opening it again would write."""

    def get(self, key: str) -> bytes | None:
        """The value of a key; None when there is none."""

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Keys that begin so, in order, with their values."""

    def write(self, changes: Changes) -> None:
        """Make these changes, all or none; they are durable when this returns.

        Raises:
            DiskFullError: the disk is full; nothing has changed.
            DamagedError: the disk is broken; nothing has changed.

        After either, a store whose state on disk is not known takes no more writes until it is
        opened again.
        """

    def bytes_on_disk(self) -> int:
        """How much it takes on disk."""

    def properties(self) -> Mapping[str, int]:
        """What RocksDB says of itself, by the names in `metrics/rocksdb_metrics.py`; empty for
        another store.
        """

    def close(self) -> None:
        """Give the files back; a second call does nothing."""

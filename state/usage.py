"""The bytes of state, and the dead ones among them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """The bytes of one backend.

    Attributes:
        total_bytes: on heap, the columns of keys, values and timestamps, and the dicts of lists and
            maps without their contents; on RocksDB, its files and unwritten data.
        dead_bytes: an estimate of the bytes of removed keys; `compact` releases them.
    """

    total_bytes: int
    dead_bytes: int

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.total_bytes + other.total_bytes, self.dead_bytes + other.dead_bytes)

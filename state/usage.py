"""How much room state takes, and how much of it is dead."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Room of one backend.

    Attributes:
        total_bytes: on heap the columns of keys, values and timestamps, and the dicts of lists and
            maps without what they hold; on RocksDB its files and what is not in files yet.
        dead_bytes: of these what removed keys still take up, by estimate; `compact` gives it back.
    """

    total_bytes: int
    dead_bytes: int

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.total_bytes + other.total_bytes, self.dead_bytes + other.dead_bytes)

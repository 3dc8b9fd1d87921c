"""A snapshot on its way to disk: held at one moment, written later, while traffic goes on."""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from idlestate.backends.keyed.snapshot_files import SnapshotInfo


class SnapshotMode(Enum):
    """What a snapshot is for."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT_CANONICAL = "savepoint-canonical"
    """Rows that leave expired values out where the state asks for it, on both backends."""
    SAVEPOINT_NATIVE = "savepoint-native"


class Snapshot(Protocol):
    """A held snapshot."""

    def finish(self) -> SnapshotInfo:
        """Write it; the folder is there when this returns, whole and durable."""

    def discard(self) -> None:
        """Let go of it without writing."""


class HeldSnapshot:
    """A `Snapshot` made of what has to be done."""

    def __init__(self, write: Callable[[], SnapshotInfo], release: Callable[[], None]) -> None:
        """`write` writes it, `release` lets go of what was held, whatever happened."""
        self._write = write
        self._release = release

    def finish(self) -> SnapshotInfo:
        """Write it, and let go."""
        try:
            return self._write()
        finally:
            self._release()

    def discard(self) -> None:
        """Let go of it without writing."""
        self._release()

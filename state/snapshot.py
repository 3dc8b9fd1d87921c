"""A snapshot before it is on disk: held at one moment, written later, while work continues."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Protocol

from idlestate.state.errors import StateTypeError
from idlestate.state.snapshot_files import SnapshotInfo, writing


class SnapshotMode(Enum):
    """The purpose of a snapshot."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT_CANONICAL = "savepoint-canonical"
    """Rows without expired values, if the state is configured so; on all backends."""
    SAVEPOINT_NATIVE = "savepoint-native"


def mode_from(given: object) -> SnapshotMode:
    """A mode that a caller passed.

    Raises:
        StateTypeError: it is not a `SnapshotMode`; text is not accepted.
    """
    if not isinstance(given, SnapshotMode):
        raise StateTypeError(f"mode {given!r} is not valid: pass a SnapshotMode")
    return given


class Snapshot(Protocol):
    """A held snapshot."""

    def finish(self) -> SnapshotInfo:
        """Write it; the folder is complete and durable when this returns."""

    def finish_in_thread(self) -> Future[SnapshotInfo]:
        """`finish` in a separate thread, while this one continues to use the backend."""

    def discard(self) -> None:
        """Release it without writing."""


class HeldSnapshot:
    """A `Snapshot` of two functions."""

    def __init__(
        self, folder: Path, write: Callable[[], SnapshotInfo], release: Callable[[], None]
    ) -> None:
        """`write` writes it; `release` releases what was held, in any case."""
        self._folder = folder
        self._write = write
        self._release = release

    def finish(self) -> SnapshotInfo:
        """Write it, and release it.

        Raises:
            SnapshotError: it could not be written; nothing is left of it.
        """
        try:
            with writing(self._folder):
                return self._write()
        finally:
            self._release()

    def finish_in_thread(self) -> Future[SnapshotInfo]:
        """`finish` in a separate thread, while this one continues to use the backend.

        The future has the result or the error of `finish`; the process waits for it before it ends.
        """
        helper = ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshot")
        future = helper.submit(self.finish)
        helper.shutdown(wait=False)
        return future

    def discard(self) -> None:
        """Release it without writing."""
        self._release()

"""A snapshot on its way to disk: held at one moment, written later, while traffic goes on."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Protocol

from idlestate.state.errors import SnapshotError, StateError
from idlestate.state.snapshots.snapshot_files import SnapshotInfo, drop_draft


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

    def finish_in_thread(self) -> Future[SnapshotInfo]:
        """`finish` in a thread of its own, while this one goes on using the backend."""

    def discard(self) -> None:
        """Let go of it without writing."""


class HeldSnapshot:
    """A `Snapshot` made of what has to be done."""

    def __init__(
        self, folder: Path, write: Callable[[], SnapshotInfo], release: Callable[[], None]
    ) -> None:
        """`write` writes it, `release` lets go of what was held, whatever happened."""
        self._folder = folder
        self._write = write
        self._release = release

    def finish(self) -> SnapshotInfo:
        """Write it, and let go.

        Raises:
            SnapshotError: it could not be written; nothing of it is left.
        """
        try:
            return self._write()
        except StateError:
            raise
        except OSError as error:
            drop_draft(self._folder)
            raise SnapshotError(
                f"{self._folder} was not written: {error}. The state is as it was; make room, and "
                "take another snapshot"
            ) from error
        finally:
            self._release()

    def finish_in_thread(self) -> Future[SnapshotInfo]:
        """`finish` in a thread of its own, while this one goes on using the backend.

        The future has what `finish` gives back or raises; the process waits for it before it ends.
        """
        helper = ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshot")
        future = helper.submit(self.finish)
        helper.shutdown(wait=False)
        return future

    def discard(self) -> None:
        """Let go of it without writing."""
        self._release()

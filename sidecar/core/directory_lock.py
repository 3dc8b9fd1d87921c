"""One sidecar per directory: a lock that the system releases when its holder dies."""

import fcntl
import os
import threading
from pathlib import Path
from typing import Self

from idlestate.errors import RefusedError
from idlestate.timers.clock import SystemClock

_AGAIN_S = 0.05


class DirectoryTakenError(RefusedError, RuntimeError):
    """Another process uses the directory; the text names it."""


class DirectoryLock:
    """Locks a directory while it is entered.

    Args:
        directory: created if needed, accessible to its owner only.
        patience_s: how long to wait for a holder that is about to end.
    """

    def __init__(self, directory: Path, patience_s: float = 0.0) -> None:
        self._path = directory / "lock"
        self._patience_s = patience_s
        self._file: int | None = None

    def __enter__(self) -> Self:
        """Lock the directory.

        Raises:
            DirectoryTakenError: another process uses it.
            OSError: it cannot be created or written.
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        clock = SystemClock()
        ends_s = clock.monotonic_s() + self._patience_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if clock.monotonic_s() >= ends_s:
                    holder = os.read(file, 32).decode(errors="replace").strip() or "unknown"
                    os.close(file)
                    raise DirectoryTakenError(
                        f"{self._path.parent} is in use by the sidecar with pid {holder}; stop "
                        "that one, or choose another directory"
                    ) from error
            threading.Event().wait(_AGAIN_S)
        try:
            os.ftruncate(file, 0)
            os.write(file, f"{os.getpid()}\n".encode())
        except OSError as error:  # a full disk, without a path in the error
            os.close(file)
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        self._file = file
        return self

    def __exit__(self, *_error: object) -> None:
        """Release it."""
        if self._file is not None:
            os.close(self._file)

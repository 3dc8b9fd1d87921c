"""A temporary folder that is removed after the process that created it ends, however it ends.

The process holds a lock on its folder, which the system releases when the process dies. A folder of
this user that can be locked therefore belongs to a dead process, and the next process removes it.
While it is locked, `systemd-tmpfiles` does not remove it either, however old it is.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from idlestate.errors import RefusedError

PREFIX: Final = "idlestate-run-"
_MOST_TEMPORARY: Final = 70
"""The maximum length of the path of temporary files, in bytes; the path of a socket below it has at
most 107.
"""
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OwnFolder:
    """A new folder that only its user may enter, with a path short enough for sockets. Folders left
    behind by processes of this user are removed first.

    Attributes:
        path: its path.
        lock: the descriptor that holds the lock; a child that inherits it keeps the folder too.
    """

    def __init__(self) -> None:
        base = Path(tempfile.gettempdir())
        if len(os.fsencode(base)) > _MOST_TEMPORARY:
            base = Path("/tmp")  # noqa: S108 - nobody can foresee the name that is made there
        _remove_left_behind(base)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        self.lock = -1
        self.ensure()

    def ensure(self) -> None:
        """Make sure that it exists and is locked, because many machines remove old temporary files.

        Raises:
            RefusedError: another user has recreated it.
        """
        while not self._is_locked():
            self.path.mkdir(mode=0o700, exist_ok=True)
            if self.path.lstat().st_uid != os.geteuid():
                raise RefusedError(
                    f"{self.path} was replaced by a folder of another user: stop the driver, "
                    "and start it again"
                )
            with suppress(FileNotFoundError):  # another process has just mistaken it for a leftover
                lock = os.open(self.path, _OPEN)
                self._close()
                self.lock = lock
                with suppress(OSError):  # a file system without locks, where no folder is removed
                    fcntl.flock(lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove it; a second call does nothing."""
        if self.lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            self._close()

    def _is_locked(self) -> bool:
        with suppress(FileNotFoundError):
            return self.lock >= 0 and os.path.samestat(os.fstat(self.lock), self.path.lstat())
        return False

    def _close(self) -> None:
        if self.lock >= 0:
            os.close(self.lock)
        self.lock = -1


def _remove_left_behind(base: Path) -> None:
    for path in base.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it belongs to another user, or its process is alive
            lock = os.open(path, _OPEN)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(lock)

"""A temporary folder that is removed when the process that created it ends, in whatever way.

The process holds a lock on its folder, which the system takes back when the process dies. A folder
of this user that can be locked is therefore of a dead one, and the next process removes it. While
it is locked, `systemd-tmpfiles` leaves it alone too, however old it is.
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
"""Bytes of the path of temporary files; one of a socket in a folder there has at most 107."""
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OwnFolder:
    """A new folder that its user alone may enter, with a path that is short enough for sockets.

    Those that processes of this user have left behind are removed first.

    Attributes:
        path: where it is.
        lock: the descriptor that holds it; a child that inherits it keeps the folder too.
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
        """Have it there and locked: on many machines old temporary files are removed.

        Raises:
            RefusedError: another user has made it anew.
        """
        while not self._is_locked():
            self.path.mkdir(mode=0o700, exist_ok=True)
            if self.path.lstat().st_uid != os.geteuid():
                raise RefusedError(
                    f"{self.path} was replaced by a folder of another user: stop the driver, "
                    "and start it again"
                )
            with suppress(FileNotFoundError):  # another process has just taken it for a dead one's
                lock = os.open(self.path, _OPEN)
                self._close()
                self.lock = lock
                with suppress(OSError):  # a file system without locks, where none is removed
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
        with suppress(OSError):  # it is another user's, or its process lives
            lock = os.open(path, _OPEN)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(lock)

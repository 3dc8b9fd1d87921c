"""Notices that somebody saved a configuration file."""

from pathlib import Path
from typing import Self

Mark = tuple[int, int, int] | None
"""Inode, size and time of change (ns); None when there is no file."""


class SavedFile:
    """Tells when a file was saved. It is asked now and then, which also sees what notifications
    miss: a file swapped by a link to its folder, or one on another machine's disk.
    """

    def __init__(self, file: str | Path) -> None:
        """Nothing was seen yet: the first file to be found counts as saved."""
        self._path = Path(file)
        self._taken: Mark = None
        self._last: Mark = None

    @classmethod
    def taken(cls, file: str | Path) -> Self:
        """The file as it is now counts as taken: to be asked for before it is read."""
        found = cls(file)
        found._taken = found._last = found._mark()
        return found

    def was_saved(self) -> bool:
        """Whether there is another file than at the last True, the same for two calls on end: a
        file that is still being written is left alone.
        """
        last, self._last = self._last, self._mark()
        if self._last == self._taken or self._last != last:
            return False
        self._taken = self._last
        return True

    def _mark(self) -> Mark:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

"""Watches a configuration file: notices when it is saved."""

from pathlib import Path
from typing import Self

Mark = tuple[int, int, int] | None
"""Inode, size and time of change (ns); None if there is no file."""


class FileWatch:
    """Detects that a file was saved. Polling also finds changes that notifications miss: a
    replaced link to the file's folder, or a file on another machine's disk.
    """

    def __init__(self, file: str | Path) -> None:
        """Start without a known file: the first one that is found counts as saved."""
        self._path = Path(file)
        self._taken: Mark = None
        self._last: Mark = None

    @classmethod
    def taken(cls, file: str | Path) -> Self:
        """Treat the current file as known; call this before reading it."""
        found = cls(file)
        found._taken = found._last = found._mark()
        return found

    def was_saved(self) -> bool:
        """Whether the file changed since the last True and is the same in two successive calls: a
        file that is still being written does not count.
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

"""A cache of remote files on the local disk, with the bytes that were read or written.

A file of runs in an object store or on HDFS has an *entry* here: a file of the same size, with
holes for blocks that were not fetched yet. There is no index: a block is valid if its checksum
matches, and is fetched again otherwise. Processes therefore share entries without coordination,
and the cache may be deleted at any time, even while a query runs.

The cache takes at most half of the available space of its disk, which is the free space and its own
size. The least recently opened entries are removed first.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

from idlestate.backends.files.local_file import map_unread
from idlestate.errors import RefusedError

PLACE_VARIABLE = "IDLESTATE_CACHE_DIR"
_TRIM_EVERY_BYTES = 1 << 28
_ATTEMPTS = 9
_T = TypeVar("_T")


class CacheEntry:
    """The cached part of one file, memory-mapped; it survives the deletion of the cache."""

    def __init__(self, path: Path, size: int) -> None:
        """Open it, or create it with nothing but holes."""
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._close = weakref.finalize(self, os.close, self.handle)
        self.is_new = os.fstat(self.handle).st_size != size
        if self.is_new:
            os.ftruncate(self.handle, size)
        os.utime(self.handle)
        # Not by its path, which another process may have deleted and created again.
        self.mapped = map_unread(f"/dev/fd/{self.handle}")

    def write(self, begin: int, data: bytes) -> None:
        """Write what was fetched."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self.handle, view, begin)
            view, begin = view[written:], begin + written

    def close(self) -> None:
        """Close it for writing."""
        self._close()


class LocalCache:
    """The entries of this machine.

    Args:
        root: the folder; created when needed.
        limit_bytes: the largest size; None: half of the available space.
    """

    def __init__(self, root: Path, limit_bytes: int | None = None) -> None:
        self._root = root
        self._limit_bytes = limit_bytes
        self._until_trim = 0

    def open(self, place: str, name: str, size: int) -> CacheEntry:
        """The entry of a file of this size.

        Raises:
            RefusedError: the folder cannot be written.
        """
        entry = self._make(lambda: CacheEntry(self._folder(place) / name, size))
        if entry.mapped.size != size:  # two processes created it at once, or another program did
            raise self.unusable(OSError(f"{self._folder(place) / name} is of another size"))
        self._note(size if entry.is_new else 0)
        return entry

    @contextmanager
    def copying(self, place: str, name: str) -> "Iterator[Copy]":
        """A copy of a file that is being written; removed if writing fails.

        Raises:
            RefusedError: the folder cannot be written.
        """
        copy = self._make(lambda: Copy(self._folder(place) / name))
        try:
            yield copy
        except BaseException:
            copy.give_up()
            raise
        copy.close()
        self._note(copy.size)

    def remove(self, place: str, name: str) -> None:
        """Remove the entry of a file."""
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            (self._folder(place) / name).unlink()

    def keep_only(self, place: str, names: set[str]) -> None:
        """Remove the entries of a place except these."""
        with contextlib.suppress(
            FileNotFoundError, FileExistsError
        ):  # it was deleted in the meantime
            for path in self._folder(place).iterdir():
                if path.name not in names:
                    path.unlink(missing_ok=True)

    def trim(self) -> None:
        """Remove the least recently opened entries until the rest is within the limit."""
        with contextlib.suppress(FileNotFoundError):  # the cache was deleted in the meantime
            entries = sorted(self._entries())
            held = sum(size for _, size, _ in entries)
            limit = self._limit_bytes
            if limit is None:
                limit = (shutil.disk_usage(self._root).free + held) // 2
            for _, size, path in entries:
                if held <= limit:
                    break
                path.unlink(missing_ok=True)
                held -= size

    def _entries(self) -> Iterator[tuple[int, int, Path]]:
        """For each entry: when it was last opened, its size on disk, and its path."""
        for path in self._root.glob("*/*"):
            with contextlib.suppress(FileNotFoundError):
                facts = path.stat()
                yield facts.st_mtime_ns, facts.st_blocks * 512, path

    def unusable(self, error: OSError) -> RefusedError:
        """The error of a cache that cannot be written."""
        return RefusedError(
            f"the local cache {self._root} cannot be written ({error.strerror or error}): free "
            f"some space there, or choose another folder in the environment: {PLACE_VARIABLE}; "
            "nothing is lost, the batch that failed runs again"
        )

    def _folder(self, place: str) -> Path:
        folder = self._root / hashlib.sha256(place.encode()).hexdigest()[:16]
        for each in (self._root, folder):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
            if each.lstat().st_uid not in (0, os.geteuid()):
                # Any user may have created a temporary folder, and could read its files.
                raise PermissionError(errno.EPERM, f"{each} belongs to another user")
        return folder

    def _make(self, make: Callable[[], _T]) -> _T:
        """Create something; retry if the folder is being deleted.

        Raises:
            RefusedError: the folder cannot be written.
        """
        for _ in range(_ATTEMPTS):
            try:
                return make()
            except (FileNotFoundError, FileExistsError) as error:
                failed = error
            except OSError as error:
                raise self.unusable(error) from error
        raise self.unusable(failed) from failed

    def _note(self, more_bytes: int) -> None:
        self._until_trim -= more_bytes
        if self._until_trim <= 0:
            self._until_trim = _TRIM_EVERY_BYTES
            self.trim()


class Copy:
    """An entry that is written from start to end; a full disk ends only the copy."""

    def __init__(self, path: Path) -> None:
        """Start the copy."""
        self._path = path
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = os.fdopen(handle, "wb", buffering=0)
        self.size = 0
        self._is_whole = True

    def write(self, data: memoryview) -> None:
        """Copy some bytes, if there is room."""
        if not self._is_whole:
            return
        self.size += len(data)
        try:
            while len(data):
                data = data[self._file.write(data) :]
        except OSError:
            self.give_up()

    def give_up(self) -> None:
        """Remove the copy."""
        self._is_whole = False
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """The copy is complete."""
        self._file.close()


@cache
def local_cache() -> LocalCache:
    """The cache of this machine: `IDLESTATE_CACHE_DIR`, else a folder of this user in the folder of
    temporary files.
    """
    named = os.environ.get(PLACE_VARIABLE)
    if named:
        return LocalCache(Path(named))
    return LocalCache(Path(tempfile.gettempdir(), f"idlestate-cache-{os.getuid()}"))

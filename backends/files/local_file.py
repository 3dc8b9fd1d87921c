"""The bytes of a file on the local disk."""

import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from idlestate.backends.files.file_checked_on_read import Span

_READ_AT_ONCE = 1 << 22


class LocalBytes:
    """A memory-mapped file; a span is read from disk before its pages are accessed.

    This way, the kernel reads no bytes around it, and many spans at once.
    """

    def __init__(self, path: str) -> None:
        """Open it.

        Raises:
            FileNotFoundError: it does not exist.
        """
        self.path = path
        self.mapped = map_unread(path)

    def read(self, spans: Sequence[Span]) -> Iterator[tuple[int, memoryview]]:
        """The spans, in pieces of some MB."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            yield from read_spans(handle, spans)
        finally:
            os.close(handle)

    def fetch(self, _spans: Sequence[Span]) -> Iterator[tuple[int, memoryview]]:
        """Do nothing, because there is no other copy of the file."""
        return iter(())

    def close(self) -> None:
        """Do nothing, because nothing is open between calls."""


def map_unread(path: str) -> pa.Buffer:
    """A memory-mapped file, without reading any of it, and without read-ahead on page access."""
    with Path(path).open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return pa.py_buffer(b"")  # mmap does not accept empty files
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mmap, "MADV_RANDOM"):
        mapped.madvise(mmap.MADV_RANDOM)
    return pa.py_buffer(mapped)


def read_spans(handle: int, spans: Sequence[Span]) -> Iterator[tuple[int, memoryview]]:
    """Spans of an open file, in pieces of some MB; all of them are announced to the disk first."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        for begin, stop in spans:
            os.posix_fadvise(handle, begin, stop - begin, os.POSIX_FADV_WILLNEED)
    for begin, stop in spans:
        for at in range(begin, stop, _READ_AT_ONCE):
            yield at, memoryview(os.pread(handle, min(_READ_AT_ONCE, stop - at), at))

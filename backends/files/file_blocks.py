"""Files that can be verified in part: every block has its own checksum.

Layout: the data; then for each 4 KB of it, the last block being shorter, the XXH3 as a
little-endian uint64: the *table*. The reference to the file contains its size and the XXH3 of the
table, so that every read is verified.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from idlestate.config.plurals import counted

BLOCK_BYTES = 1 << 12
_ENTRY = np.dtype("<u8")
Checksums = npt.NDArray[np.uint64]
Buffer: TypeAlias = bytes | memoryview | pa.Buffer


class Sink(Protocol):
    """A file that can be written to."""

    def write(self, data: memoryview, /) -> object:
        """Write some bytes."""


class BlockWriter:
    """A file for pyarrow to write to; `finish` appends the table."""

    closed = False

    def __init__(self, files: Sequence[Sink]) -> None:
        """Write the same to each of these open, empty files."""
        self._files = files
        self._table: list[int] = []
        self._block = xxhash.xxh3_64()
        self._filled = 0
        self.size = 0
        """Bytes written so far."""

    def write(self, data: Buffer) -> int:
        """Write some bytes."""
        view = memoryview(data).cast("B")
        for begin, stop in self._cuts(len(view)):
            self._block.update(view[begin:stop])
            self._filled += stop - begin
            if self._filled == BLOCK_BYTES:
                self._end_block()
        self._put(view)
        return len(view)

    def tell(self) -> int:
        """The position of the next byte."""
        return self.size

    def flush(self) -> None:
        """Nothing: closing the file flushes it."""

    def close(self) -> None:
        """Nothing: the code that opened the file closes it."""

    def finish(self) -> str:
        """Write the table; return its checksum in hex."""
        if self._filled:
            self._end_block()
        table = np.array(self._table, dtype=_ENTRY).tobytes()
        self._put(memoryview(table))
        return checksum_of(table)

    def _put(self, data: memoryview) -> None:
        for file in self._files:
            file.write(data)
        self.size += len(data)

    def _cuts(self, length: int) -> list[tuple[int, int]]:
        """The boundaries of blocks in data of this length."""
        inner = list(range(BLOCK_BYTES - self._filled, length, BLOCK_BYTES))
        return list(zip([0, *inner], [*inner, length], strict=True))

    def _end_block(self) -> None:
        self._table.append(self._block.intdigest())
        self._block.reset()
        self._filled = 0


def data_bytes(size: int) -> int:
    """The number of a file's bytes that are data."""
    blocks = -(-size // (BLOCK_BYTES + _ENTRY.itemsize))
    return size - blocks * _ENTRY.itemsize


def checksum_of(table: Buffer) -> str:
    """The checksum of a table, in hex."""
    return xxhash.xxh3_64_hexdigest(table)


def read_table(table: Buffer) -> Checksums:
    """The checksums in a table."""
    return np.frombuffer(table, dtype=_ENTRY)


def wrong_blocks(data: Buffer, first: int, expected: Checksums) -> list[int]:
    """The blocks with a wrong checksum.

    Args:
        data: whole blocks, one after the other; the file's last may be short.
        first: the number of the first.
        expected: the checksums of all blocks of the file.
    """
    view = memoryview(data)
    digest = xxhash.xxh3_64_intdigest
    return [
        first + at
        for at, (begin, checksum) in enumerate(
            zip(range(0, len(view), BLOCK_BYTES), expected[first:].tolist(), strict=False)
        )
        if digest(view[begin : begin + BLOCK_BYTES]) != checksum
    ]


def what_is_wrong(file: pa.Buffer, size: int, checksum: str) -> str | None:
    """What is wrong with a whole file; None if nothing is.

    Args:
        file: the file.
        size, checksum: as in its reference.
    """
    if file.size != size:
        return f"is damaged: {file.size} of {size} bytes"
    data = data_bytes(size)
    table = file.slice(data)
    if checksum_of(table) != checksum:
        return "is damaged: its table of checksums has a wrong checksum"
    wrong = wrong_blocks(file.slice(0, data), 0, read_table(table))
    if wrong:
        at = wrong[0] * BLOCK_BYTES
        return (
            f"is damaged: wrong checksum of {counted(len(wrong), 'block')}, the first at byte {at}"
        )
    return None

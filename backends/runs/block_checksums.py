"""Files that can be verified in part: every block has its own checksum.

Layout: the data, followed by the *table*: the XXH3 of each 4 KB block (the last one may be shorter)
as a little-endian uint64. The reference to the file contains its size and the XXH3 of the table, so
every read is verified.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from idlestate.backends.runs.byte_sink import Sink
from idlestate.config.plurals import counted

BLOCK_BYTES = 1 << 12
"""The unit of reads and checks; reading less would cost the same."""
_ENTRY = np.dtype("<u8")
Checksums = npt.NDArray[np.uint64]
Buffer: TypeAlias = bytes | memoryview | pa.Buffer


class BlockWriter:
    """A file being written; `finish` appends the table."""

    def __init__(self, files: Sequence[Sink]) -> None:
        """Write the same data to each of these open, empty files."""
        self._files = files
        self._table: list[int] = []
        self._block = xxhash.xxh3_64()
        self.size = 0
        """Bytes written so far."""

    def write(self, data: Buffer) -> None:
        """Write some bytes."""
        view = memoryview(data).cast("B")
        begun = min(-self.size % BLOCK_BYTES, len(view))
        stop = begun + (len(view) - begun) // BLOCK_BYTES * BLOCK_BYTES
        self._block.update(view[:begun])
        if begun and (self.size + begun) % BLOCK_BYTES == 0:
            self._end_block()
        digest = xxhash.xxh3_64_intdigest
        self._table += [
            digest(view[at : at + BLOCK_BYTES]) for at in range(begun, stop, BLOCK_BYTES)
        ]
        self._block.update(view[stop:])
        self._put(view)

    def finish(self) -> str:
        """Write the table; return its checksum in hex."""
        if self.size % BLOCK_BYTES:
            self._end_block()
        table = np.array(self._table, dtype=_ENTRY).tobytes()
        self._put(memoryview(table))
        return checksum_of(table)

    def _put(self, data: memoryview) -> None:
        for file in self._files:
            file.write(data)
        self.size += len(data)

    def _end_block(self) -> None:
        self._table.append(self._block.intdigest())
        self._block.reset()


def data_bytes(size: int) -> int:
    """The number of data bytes in a file."""
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
        data: adjacent complete blocks; the file's last block may be short.
        first: the number of the first block.
        expected: the checksums of all blocks of the file.
    """
    view = memoryview(data)
    digest = xxhash.xxh3_64_intdigest
    begins = range(0, len(view), BLOCK_BYTES)
    return [
        first + at
        for at, (begin, checksum) in enumerate(
            zip(begins, expected[first : first + len(begins)].tolist(), strict=True)
        )
        if digest(view[begin : begin + BLOCK_BYTES]) != checksum
    ]


def wrong_length(found: int, expected: int) -> str | None:
    """The problem with the length of a file; None if there is none."""
    return None if found == expected else f"{found} of {expected} bytes"


def what_is_wrong(file: pa.Buffer, size: int, checksum: str) -> str | None:
    """The problem with an entire file; None if there is none.

    Args:
        file: the file.
        size, checksum: as in its reference.
    """
    if length := wrong_length(file.size, size):
        return f"is damaged: {length}"
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

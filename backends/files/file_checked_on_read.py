"""A file of a run in memory, whose blocks are read and checked when they are first needed.

The file is memory-mapped, but a page is accessed only after its block was read, from the local disk
or a remote store, and its checksum was verified. A batch therefore reads only the parts of a large
state that its keys need, and damage is detected before the data is used.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.block_checksums import (
    BLOCK_BYTES,
    Checksums,
    checksum_of,
    data_bytes,
    read_table,
    wrong_blocks,
    wrong_length,
)
from idlestate.backends.runs.byte_arrays import spread
from idlestate.backends.shards.shard_record import RunRef
from idlestate.errors import DamagedStateError

FROM_CHECKPOINT = (
    "restore it from a copy of the checkpoint, or see which batch does without it: "
    "idlestate state verify CHECKPOINT"
)
"""What to do about a lost or damaged file of a checkpoint."""
_REACH = 4
"""Blocks that are closer than this are read as one, which takes a disk no longer."""
Ints = npt.NDArray[np.int64]
Span = tuple[int, int]
"""The bytes begin..stop of a file."""


class Bytes(Protocol):
    """The source of a file's bytes."""

    @property
    def path(self) -> str:
        """The file, for messages."""

    @property
    def mapped(self) -> pa.Buffer:
        """The memory that contains what was read."""

    def read(self, spans: Sequence[Span], /) -> Iterator[tuple[int, memoryview]]:
        """The local bytes of these spans, with their positions."""

    def fetch(self, spans: Sequence[Span], /) -> Iterator[tuple[int, memoryview]]:
        """These spans from the original file, if the local bytes are wrong."""

    def close(self) -> None:
        """The whole file has been read."""


class CheckedFile:
    """A `Source` of a run (`idlestate.backends.runs.byte_source`) that verifies every byte."""

    def __init__(self, held: Bytes, ref: RunRef, advice: str = FROM_CHECKPOINT) -> None:
        """Read the checksums of its blocks.

        Args:
            held: the file's bytes.
            ref: its entry in the state.
            advice: what to do if it is damaged.

        Raises:
            DamagedStateError: it is not what was written.
        """
        self._held, self._ref, self._advice = held, ref, advice
        if length := wrong_length(held.mapped.size, ref.bytes):
            raise damaged(held.path, length, advice)
        size = data_bytes(ref.bytes)
        self.data = held.mapped.slice(0, size)
        self._expected = self._table()
        self._is_good = np.zeros(len(self._expected), dtype=bool)
        self.is_whole = False

    def need(self, begins: Ints, stops: Ints) -> None:
        """Read and verify these spans of bytes.

        Raises:
            DamagedStateError: a block is not what was written.
        """
        if self.is_whole:
            return
        blocks = self._unread(begins, stops)
        for get in (self._held.read, self._held.fetch):
            if len(blocks):
                self._check(get(list(self._spans(blocks))))
                blocks = blocks[~self._is_good[blocks]]
        if len(blocks):
            at = int(blocks[0]) * BLOCK_BYTES
            raise damaged(self._held.path, f"a wrong checksum at byte {at}", self._advice)
        if self._is_good.all():
            self.is_whole = True
            self._held.close()

    def _table(self) -> Checksums:
        for get in (self._held.read, self._held.fetch):
            table = b"".join(piece for _, piece in get([(self.data.size, self._ref.bytes)]))
            if checksum_of(table) == self._ref.checksum:
                return read_table(table)
        raise damaged(self._held.path, "its table of checksums is wrong", self._advice)

    def _unread(self, begins: Ints, stops: Ints) -> Ints:
        """The blocks of these spans that were not read yet, ascending."""
        some = stops > begins
        first, last = begins[some] // BLOCK_BYTES, (stops[some] - 1) // BLOCK_BYTES
        is_wanted = np.zeros(len(self._is_good), dtype=bool)
        is_wanted[first] = is_wanted[last] = True
        is_long = last - first > 1
        if is_long.any():
            between = first[is_long] + 1
            is_wanted[spread(between, last[is_long] - between)] = True
        return np.flatnonzero(is_wanted & ~self._is_good)

    def _spans(self, blocks: Ints) -> Iterator[Span]:
        """The bytes of these blocks; close ones together, with the bytes between them."""
        cuts = np.flatnonzero(np.diff(blocks) > _REACH) + 1
        firsts = blocks[np.concatenate([[0], cuts])] * BLOCK_BYTES
        stops = (blocks[np.concatenate([cuts - 1, [len(blocks) - 1]])] + 1) * BLOCK_BYTES
        return zip(firsts.tolist(), np.minimum(stops, self.data.size).tolist(), strict=True)

    def _check(self, pieces: Iterable[tuple[int, memoryview]]) -> None:
        for begin, piece in pieces:
            first = begin // BLOCK_BYTES
            stop = first + -(-len(piece) // BLOCK_BYTES)
            wrong = wrong_blocks(piece, first, self._expected)
            self._is_good[first:stop] = True
            self._is_good[wrong] = False


def damaged(path: str, what: str, advice: str = FROM_CHECKPOINT) -> DamagedStateError:
    """The error of a damaged file."""
    return DamagedStateError(f"{path} is damaged ({what}); {advice}")


def missing(path: str, ref: RunRef, advice: str = FROM_CHECKPOINT) -> DamagedStateError:
    """The error of a missing file."""
    return DamagedStateError(
        f"{path} is missing, and the state of batch {ref.version} needs it; {advice}"
    )

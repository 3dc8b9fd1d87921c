"""A file of a run in memory, whose blocks are read and checked when they are first needed.

The file is mapped, but no page of it is touched before its block was read, from this machine's disk
or from a store far away, and found to be what was written. So what a batch reads of a large state
follows the keys that it touches, and damage is found before anything is made of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.files.file_blocks import (
    BLOCK_BYTES,
    Checksums,
    checksum_of,
    data_bytes,
    read_table,
    wrong_blocks,
)
from idlestate.backends.shards.shard_record import RunRef
from idlestate.errors import DamagedStateError

_REACH = 4
"""Blocks that are no farther apart than this are read as one: a disk takes as long for either."""
Ints = npt.NDArray[np.int64]
Span = tuple[int, int]
"""The bytes begin..stop of a file."""


class Bytes(Protocol):
    """Where the bytes of a file come from."""

    @property
    def path(self) -> str:
        """The file, as messages name it."""

    @property
    def mapped(self) -> pa.Buffer:
        """The memory in which what was read is found."""

    def read(self, spans: Sequence[Span], /) -> Iterator[tuple[int, memoryview]]:
        """What is at hand of these spans: where it begins, and the bytes."""

    def fetch(self, spans: Sequence[Span], /) -> Iterator[tuple[int, memoryview]]:
        """The same, from where the file was written to; what was at hand proved wrong."""

    def close(self) -> None:
        """All of it has been read."""


class CheckedFile:
    """A `Source` of a run (`idlestate.backends.runs.reading`) that trusts no byte unchecked."""

    def __init__(self, held: Bytes, ref: RunRef) -> None:
        """Read the checksums of its blocks, and nothing else.

        Args:
            held: the file's bytes.
            ref: what the state knows of it.

        Raises:
            DamagedStateError: it is not what was written.
        """
        self._held, self._ref = held, ref
        if held.mapped.size != ref.bytes:
            raise damaged(held.path, f"{held.mapped.size} of {ref.bytes} bytes")
        size = data_bytes(ref.bytes)
        self.data = held.mapped.slice(0, size)
        self._expected = self._table()
        self._is_good = np.zeros(len(self._expected), dtype=bool)
        self.is_whole = False

    def need(self, begins: Ints, stops: Ints) -> None:
        """Have these spans of bytes read and checked.

        Raises:
            DamagedStateError: a block is not what was written.
        """
        blocks = self._unread(begins, stops)
        for get in (self._held.read, self._held.fetch):
            if len(blocks):
                self._check(get(list(self._spans(blocks))))
                blocks = blocks[~self._is_good[blocks]]
        if len(blocks):
            raise damaged(
                self._held.path, f"a wrong checksum at byte {int(blocks[0]) * BLOCK_BYTES}"
            )
        if self._is_good.all():
            self.is_whole = True
            self._held.close()

    def _table(self) -> Checksums:
        for get in (self._held.read, self._held.fetch):
            table = b"".join(piece for _, piece in get([(self.data.size, self._ref.bytes)]))
            if checksum_of(table) == self._ref.checksum:
                return read_table(table)
        raise damaged(self._held.path, "its table of checksums is wrong")

    def _unread(self, begins: Ints, stops: Ints) -> Ints:
        """The blocks of these spans that nobody asked for yet, ascending."""
        some = stops > begins
        first, last = begins[some] // BLOCK_BYTES, (stops[some] - 1) // BLOCK_BYTES
        # Plus one where a span begins, minus one behind its end: the sum counts the spans over it.
        steps = np.bincount(first, minlength=len(self._is_good) + 1)
        steps -= np.bincount(last + 1, minlength=len(self._is_good) + 1)
        return np.flatnonzero((np.cumsum(steps)[:-1] > 0) & ~self._is_good)

    def _spans(self, blocks: Ints) -> Iterator[Span]:
        """The bytes of these blocks; near ones together, with what lies between."""
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


def damaged(path: str, what: str) -> DamagedStateError:
    """The error of a file that is not what was written."""
    return DamagedStateError(
        f"{path} is damaged ({what}); restore it from a copy of the checkpoint, or see "
        "which batch does without it: idlestate state verify CHECKPOINT"
    )


def missing(path: str, ref: RunRef) -> DamagedStateError:
    """The error of a file that is not there."""
    return DamagedStateError(
        f"{path} is missing, and the state of batch {ref.version} needs it; restore it "
        "from a copy of the checkpoint, or see which batch does without it: idlestate state "
        "verify CHECKPOINT"
    )

"""A segment to be written: up to about 260,000 rows of a run, with their filter and due index.

Layout, each part at a multiple of its entries' size: the rows as records
(`idlestate.backends.runs.row_layout`), in order of hash; `filter` uint64; `due` uint32 and `code`
uint16, the due index; the strings of each string column, one after the other. The rows of all
segments of a run start at multiples of a record's size, so they can be read as one array.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.block_checksums import BLOCK_BYTES
from idlestate.backends.runs.bloom_filter import Filter
from idlestate.backends.runs.byte_source import Ints
from idlestate.backends.runs.due_index import STRIDE, DueIndex
from idlestate.backends.runs.packed_rows import PackedRows
from idlestate.backends.runs.table_schema import TableSchema
from idlestate.retention.policy import FOREVER_MS, Policy


class SegmentIndex(NamedTuple):
    """The entry of a segment in the run's index; positions are byte offsets in the file."""

    rows: int
    begin: int
    """Where the records begin."""
    last: int
    """The highest hash."""
    fences: Ints
    """The hashes of the rows at `fence_rows`."""
    filter: int
    filter_blocks: int
    due: int
    code: int
    due_rows: int
    codes: npt.NDArray[np.uint16]
    """Every 512th code of the due index."""
    base_ms: int
    shift: int
    texts: list[int]
    """Where the strings of each column begin."""
    has_tombstones: bool


SEGMENT_INDEX = pa.schema(
    [
        ("rows", pa.int64()),
        ("begin", pa.int64()),
        ("last", pa.int64()),
        ("fences", pa.list_(pa.int64())),
        ("filter", pa.int64()),
        ("filter_blocks", pa.int64()),
        ("due", pa.int64()),
        ("code", pa.int64()),
        ("due_rows", pa.int64()),
        ("codes", pa.list_(pa.uint16())),
        ("base_ms", pa.int64()),
        ("shift", pa.int64()),
        ("texts", pa.list_(pa.int64())),
        ("has_tombstones", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows in order of hash, at least one; equal hashes are never in two segments of a run."""

    packed: PackedRows
    hashes: Ints
    has_tombstones: bool
    due: DueIndex
    """The due index; empty if the policy ends nothing."""
    filter: Filter | None
    """The filter; None in the oldest run, which has nearly every key that is looked up in it."""

    @classmethod
    def of(cls, packed: PackedRows, policy: Policy, *, with_filter: bool) -> "Segment":
        """The segment of these rows, indexed by their deadlines under a policy."""
        rows = packed.layout.unpack_times(packed.records)
        gone = rows.are_tombstones
        due = DueIndex.of(np.zeros(0, dtype=np.int64), None)
        if not policy.is_unbounded:
            due_ms = rows.lives.due_ms(policy)
            # One row that never ends would make the codes too coarse: timers are spread over days.
            ends = ~gone & (due_ms != FOREVER_MS)
            real = None if ends.all() else np.flatnonzero(ends)
            due = DueIndex.of(due_ms if real is None else due_ms[real], real)
        bloom = Filter.of(rows.hashes) if with_filter else None
        return cls(packed, rows.hashes, bool(gone.any()), due, bloom)

    def __len__(self) -> int:
        return len(self.packed)

    def counted(self, schema: TableSchema) -> int:
        """The number of rows that it has, or that its rows represent."""
        if schema.counted_by is None:
            return len(self)
        return int(np.sum(self.packed.records[schema.counted_by]))

    def encode(self, at: int) -> tuple[SegmentIndex, Iterator[memoryview]]:
        """Its bytes, in pieces to write in order, and its entry in the run's index.

        Args:
            at: the file offset of the first byte.
        """
        records, texts = self.packed.pieces()
        blocks = np.zeros(0, dtype=np.uint64) if self.filter is None else self.filter.blocks
        width = self.packed.layout.dtype.itemsize
        indices = (blocks, 8), (self.due.rows, 4), (self.due.codes, 2)
        parts = [(records, width), *(([part.view(np.uint8).data], size) for part, size in indices)]
        parts += [([text], 1) for text in texts]
        begins, pieces = [], []
        for part, size in parts:
            gap = -at % size
            begins.append(at + gap)
            pieces += [memoryview(bytes(gap)), *part]
            at += gap + sum(piece.nbytes for piece in part)
        index = SegmentIndex(
            rows=len(self),
            begin=begins[0],
            last=int(self.hashes[-1]),
            fences=self.hashes[fence_rows(begins[0], len(self), width)],
            filter=begins[1],
            filter_blocks=len(blocks),
            due=begins[2],
            code=begins[3],
            due_rows=len(self.due.rows),
            codes=self.due.codes[::STRIDE].copy(),
            base_ms=self.due.base_ms,
            shift=self.due.shift,
            texts=begins[4:],
            has_tombstones=self.has_tombstones,
        )
        return index, iter(pieces)


def fence_rows(begin: int, rows: int, width: int) -> Ints:
    """The rows whose hashes are kept in memory: the first row, and the first of each block of the
    file.

    Args:
        begin: where the records begin.
        rows: the number of rows.
        width: the bytes of each row.
    """
    blocks = np.arange(begin // BLOCK_BYTES + 1, -(-(begin + rows * width) // BLOCK_BYTES))
    first = -(-(blocks * BLOCK_BYTES - begin) // width)
    return np.unique(np.concatenate([[0], first[first < rows]]))

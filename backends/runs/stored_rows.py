"""The rows of a run in its file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.byte_source import Ints, Source
from idlestate.backends.runs.row_layout import HASH_BYTES, Records, RowLayout, Text
from idlestate.backends.runs.segment import SegmentIndex, fence_rows
from idlestate.backends.runs.sorted_search import between_fences, first_at_least

Flags = npt.NDArray[np.bool_]

_HIGHEST_HASH = (1 << 63) - 1
_MANY = 32
"""If at least one row in this many is searched for, all hashes are read, and kept in memory if the
run has one segment.
"""
_DENSE = 4
"""If at least one row in this many is read, the strings of all rows are read as one column. That is
faster, and a batch that touches so many open lives merges (`MergePolicy.dense`), so it reads all
rows anyway.
"""


@dataclass(frozen=True)
class StoredRows:
    """Rows in order of hash, at least one, about 260,000 per segment."""

    source: Source
    """The file."""
    layout: RowLayout
    segments: Sequence[SegmentIndex]
    """What is known about each segment without reading it."""

    @cached_property
    def starts(self) -> Ints:
        """The number of each segment's first row, and the number of rows."""
        return np.cumsum([0, *(segment.rows for segment in self.segments)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def find(self, hashes: Ints) -> tuple[Ints, Flags]:
        """For each hash, ascending, the first row with this or a higher hash, and whether the hash
        is equal.
        """
        if not self._are_many(hashes):
            rows = self.first_at_least(hashes)
            return rows, self.have(rows, hashes)
        every = self._every_hash
        rows = np.searchsorted(every, hashes)
        return rows, every[np.minimum(rows, len(self) - 1)] == hashes

    def have(self, rows: Ints, hashes: Ints) -> Flags:
        """Whether each of these ascending rows has its hash; `len` has none."""
        have: Flags = rows < len(self)
        have[have] = self.hashes_at(rows[have]) == hashes[have]
        return have

    def _are_many(self, hashes: Ints) -> bool:
        return len(hashes) * _MANY > len(self)

    def first_at_least(self, hashes: Ints) -> Ints:
        """For each hash, ascending, the first row with this or a higher hash; `len` if there is
        none.
        """
        if not len(hashes):
            return np.zeros(0, dtype=np.int64)
        if self._are_many(hashes):
            places: Ints = np.searchsorted(self._every_hash, hashes)
            return places
        begins, stops = between_fences(*self._fences, len(self), hashes)
        # All rows between two fences are in one segment, and so is the position.
        shift = self._shift(begins)
        begins, stops = begins + shift, stops + shift
        # Only the hash of the last row, because the row may extend into the next block.
        width = self.layout.dtype.itemsize
        self.source.need(begins * width, (stops - 1) * width + HASH_BYTES)
        return first_at_least(self._records["hash"], begins, stops, hashes) - shift

    def first_after(self, hashes: Ints) -> Ints:
        """For each hash, ascending, the first row with a higher hash; `len` if there is none."""
        # There is no number above the highest hash to search for.
        places = self.first_at_least(np.maximum(hashes, hashes + 1))
        places[hashes == _HIGHEST_HASH] = len(self)
        return places

    def first_at(self, wanted: int) -> int:
        """The same for one hash."""
        return int(self.first_at_least(np.array([wanted]))[0])

    def hashes(self, begin: int, stop: int) -> Ints:
        """The hashes of the rows begin..stop."""
        parts = [records["hash"] for records, _ in self.portions(begin, stop)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    @property
    def kept_bytes(self) -> int:
        """How many bytes of hashes `_kept_hashes` keeps in memory, at most."""
        return HASH_BYTES * len(self) if len(self.segments) == 1 else 0

    @property
    def _every_hash(self) -> Ints:
        """The hashes of all rows."""
        return self._kept_hashes if self.kept_bytes else self.hashes(0, len(self))

    @cached_property
    def _kept_hashes(self) -> Ints:
        """The hashes of all rows of a small run, for the next search for many of them."""
        return self.hashes(0, len(self))

    def hashes_at(self, rows: Ints) -> Ints:
        """The hashes of these rows, which ascend."""
        at = rows + self._shift(rows)
        width = self.layout.dtype.itemsize
        self.source.need(at * width, at * width + HASH_BYTES)
        found: Ints = self._records["hash"][at]
        return found

    def _need(self, begins: Ints, stops: Ints) -> None:
        """Request these spans of records."""
        width = self.layout.dtype.itemsize
        self.source.need(begins * width, stops * width)

    def at(self, rows: Ints) -> tuple[Records, Text]:
        """The records of some rows, and a function that reads their strings."""
        if len(self.segments) == 1 and len(rows) * _DENSE > len(self):
            (portion,) = self.portions(0, len(self))
            return _some_of(*portion, rows)
        at = rows + self._shift(rows)
        self._need(at, at + 1 + bool(self.layout.texts))
        records = self._records.take(at)

        def text(name: str, kind: pa.DataType, valid: pa.Buffer | None) -> pa.Array:
            if not len(rows):
                return pa.array([], kind)
            place = self.layout.texts.index(name)
            firsts = np.array([segment.texts[place] for segment in self.segments])
            first = self._of_segments(firsts, rows)
            begins, stops = records[name], self._records[name][at + 1]
            places = begins + first, stops + first
            self.source.need(*places)
            data, as_read = self.source.data, kind
            if len(firsts) == 1:
                data = data.slice(int(first[0]))
            else:
                is_string = pa.types.is_string(kind) or pa.types.is_large_string(kind)
                as_read = pa.large_string() if is_string else pa.large_binary()
                begins, stops = places
            # The last offset is the highest, since rows of one hash may come in any order.
            spans = np.full(2 * len(rows) + 1, stops.max(), dtype=begins.dtype)
            spans[:-1:2], spans[1::2] = begins, stops
            # A column of the wanted strings, and of the bytes between them.
            column = pa.Array.from_buffers(
                as_read, 2 * len(rows), [None, pa.py_buffer(spans), data]
            )
            found = column.take(pa.array(np.arange(0, 2 * len(rows), 2)))
            if as_read != kind:
                found = found.cast(kind)
            return pa.Array.from_buffers(kind, len(rows), [valid, *found.buffers()[1:]])

        return records, text

    def sizes(self, rows: Ints) -> Ints:
        """The bytes of each of these rows, including strings."""
        at = rows + self._shift(rows)
        if self.layout.texts:
            self._need(at, at + 2)
        found = np.full(len(rows), self.layout.dtype.itemsize, dtype=np.int64)
        for name in self.layout.texts:
            places = self._records[name]
            found += places[at + 1]
            found -= places[at]
        return found

    def nbytes(self, begin: int, stop: int) -> int:
        """The bytes of the rows begin..stop, including strings."""
        found = (stop - begin) * self.layout.dtype.itemsize
        for _, at, end in self._pieces(begin, stop):
            for name in self.layout.texts:
                places = self._records[name]
                found += int(places[end]) - int(places[at])
        return found

    def portions(self, begin: int, stop: int) -> Iterator[tuple[Records, Text]]:
        """The records of the rows begin..stop, a segment at a time, and a function that reads
        strings.
        """
        for segment, at, end in self._pieces(begin, stop):
            yield self._portion(segment, at, end)

    def _pieces(self, begin: int, stop: int) -> Iterator[tuple[SegmentIndex, int, int]]:
        """The positions of the records of the rows begin..stop, per segment that has some."""
        for segment, start in zip(self.segments, self.starts.tolist(), strict=False):
            first, end = max(begin, start), min(stop, start + segment.rows)
            if first < end:
                at = segment.begin // self.layout.dtype.itemsize + first - start
                yield segment, at, at + end - first

    def _portion(self, segment: SegmentIndex, at: int, end: int) -> tuple[Records, Text]:
        more = bool(self.layout.texts)
        self._need(np.array([at]), np.array([end + more]))

        def text(name: str, kind: pa.DataType, valid: pa.Buffer | None) -> pa.Array:
            offsets = np.ascontiguousarray(self._records[name][at : end + 1])
            first = segment.texts[self.layout.texts.index(name)]
            self.source.need(first + offsets[:1], first + offsets[-1:])
            data = self.source.data.slice(first, int(offsets[-1]))
            return pa.Array.from_buffers(kind, end - at, [valid, pa.py_buffer(offsets), data])

        return self._records[at:end], text

    @cached_property
    def _records(self) -> Records:
        """The entire file as records; `_shift` says which of them are rows."""
        kind, data = self.layout.dtype, self.source.data
        return np.frombuffer(data, dtype=kind, count=data.size // kind.itemsize)

    @cached_property
    def _shifts(self) -> Ints:
        begins = np.array([segment.begin for segment in self.segments])
        return begins // self.layout.dtype.itemsize - self.starts[:-1]

    def _shift(self, rows: Ints) -> Ints:
        """The offset from row numbers to record numbers."""
        return self._of_segments(self._shifts, rows)

    def _of_segments(self, values: Ints, rows: Ints) -> Ints:
        """The value of each row's segment."""
        if len(values) == 1:
            return values
        return values[np.searchsorted(self.starts[1:-1], rows, side="right")]

    @cached_property
    def _fences(self) -> tuple[Ints, Ints]:
        """Hashes kept in memory, and their rows."""
        width = self.layout.dtype.itemsize
        rows = [
            fence_rows(segment.begin, segment.rows, width) + start
            for segment, start in zip(self.segments, self.starts.tolist(), strict=False)
        ]
        fences = [segment.fences for segment in self.segments]
        return np.concatenate(fences), np.concatenate(rows)


def _some_of(records: Records, text: Text, rows: Ints) -> tuple[Records, Text]:
    """Some of the rows of a portion."""

    def some(name: str, kind: pa.DataType, valid: pa.Buffer | None) -> pa.Array:
        found = text(name, kind, None).take(pa.array(rows))
        return pa.Array.from_buffers(kind, len(rows), [valid, *found.buffers()[1:]])

    return records.take(rows), some

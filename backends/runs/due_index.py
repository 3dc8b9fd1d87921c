"""Index of the rows of a segment that end next: row numbers in approximate order of deadline.

Deadlines are cut to 16 bits, `(deadline - base_ms) >> shift`, and rows are ordered by that code: a
radix sort, and 6 bytes per row. A code only says when a row can be due, so callers read the
deadlines of the few rows returned.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.byte_source import Ints, Source
from idlestate.backends.runs.sorted_search import between_fences, first_at_least
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS

_CODE_BITS = 16
STRIDE = 512
"""The number of codes from one fence to the next (`sorted_search`)."""
_DENSE = 32
"""If at least one row in this many is found, marking rows is faster than sorting them."""


@dataclass(frozen=True, slots=True)
class DueIndex:
    """Rows of one segment in order of their codes."""

    rows: npt.NDArray[np.uint32]
    codes: npt.NDArray[np.uint16]
    base_ms: int
    shift: int

    @classmethod
    def of(cls, deadlines_ms: Ints, rows: Ints | None = None) -> "DueIndex":
        """The index of rows with these deadlines; rows None means 0, 1 and so on."""
        if not len(deadlines_ms):
            none = np.zeros(0, dtype=np.uint16)
            return cls(none.astype(np.uint32), none, 0, 0)
        low, high = int(deadlines_ms.min()), int(deadlines_ms.max())
        shift = max(0, (high - low).bit_length() - _CODE_BITS)
        # Modulo 2**64, so that a span beyond int64 is correct too.
        above = deadlines_ms.view(np.uint64) - np.int64(low).view(np.uint64)
        codes = (above >> np.uint64(shift)).astype(np.uint16)
        order = np.argsort(codes, kind="stable")
        found = order if rows is None else rows[order]
        codes = codes[order]
        return cls(found.astype(np.uint32), codes, low, shift)


@dataclass(frozen=True, slots=True)
class DueIndices:
    """The due indices of a run's segments, in its file: one entry each."""

    source: Source
    rows: int
    """The number of rows in the run."""
    starts: Ints
    """The number of each segment's first row in the run."""
    counts: Ints
    """The number of indexed rows of each segment."""
    row_begins: Ints
    code_begins: Ints
    """Where each segment's rows and codes begin in the file, in units of uint32 and uint16."""
    bases_ms: Ints
    shifts: Ints
    fences: Ints
    fence_places: Ints
    """Codes combined with their segment number (`fence_of`), and their positions in the file."""

    def between(self, after_ms: int, upto_ms: int) -> Ints:
        """Rows that may have a deadline in (after_ms, upto_ms], including all that have one;
        ascending.
        """
        begins, stops = self._places(self._codes(after_ms), self._codes(upto_ms) + 1)
        return self._rows(begins, stops)

    def following(self, after_ms: int) -> tuple[Ints, int]:
        """What ends after `after_ms`: the rows with the same code, which may end after it, and a
        time before which no other row ends (`FOREVER_MS` if there is none).
        """
        codes = self._codes(after_ms)
        begins, stops = self._places(codes, codes + 1)
        later = np.flatnonzero(stops < self.counts)
        places = self.code_begins[later] + stops[later]
        self.source.need(places * 2, places * 2 + 2)
        next_ms = self.bases_ms[later] + (
            self._file(np.uint16)[places].astype(np.int64) << self.shifts[later]
        )
        return self._rows(begins, stops), int(next_ms.min(initial=FOREVER_MS))

    def _rows(self, begins: Ints, stops: Ints) -> Ints:
        """The rows of these spans, one span per segment."""
        rows = int((stops - begins).clip(0).sum())
        if rows == self.rows:  # all rows, each once
            return np.arange(rows)
        some = np.flatnonzero(begins < stops)
        begins, stops = self.row_begins[some] + begins[some], self.row_begins[some] + stops[some]
        self.source.need(begins * 4, stops * 4)
        places, starts = self._file(np.uint32), self.starts[some].tolist()
        parts = [
            places[begin:stop].astype(np.int64) + start
            for begin, stop, start in zip(begins.tolist(), stops.tolist(), starts, strict=True)
        ]
        found = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        if len(found) and int(found.max()) < _DENSE * len(found):
            is_found = np.zeros(int(found.max()) + 1, dtype=bool)
            is_found[found] = True
            return np.flatnonzero(is_found)
        return np.sort(found)

    def _codes(self, t_ms: int) -> Ints:
        """The code of a time in each segment; times before or after all deadlines get a code just
        outside the range.
        """
        # Modulo 2**64, so that a span beyond int64 is correct too.
        above = np.int64(t_ms).view(np.uint64) - self.bases_ms.view(np.uint64)
        codes = np.minimum(above >> self.shifts.view(np.uint64), np.uint64(1 << _CODE_BITS))
        is_before = (self.bases_ms > t_ms) | (t_ms == NEVER_MS)
        return np.where(is_before, -1, codes.astype(np.int64))

    def _places(self, *codes: Ints) -> list[Ints]:
        """For each code of each segment, the first position in the segment with this or a higher
        code.
        """
        wanted = np.stack(codes)
        numbers = np.arange(len(self.counts))
        first, end = self.code_begins, self.code_begins + self.counts
        begins, stops = between_fences(
            self.fences, self.fence_places, int(end[-1]), fence_of(numbers, wanted)
        )
        begins, stops = np.clip(begins, first, end), np.clip(stops, first, end)
        self.source.need(begins.ravel() * 2, stops.ravel() * 2)
        found = first_at_least(self._file(np.uint16), begins, stops, wanted)
        return list(found - first)

    def _file(self, kind: type[Any]) -> npt.NDArray[Any]:
        width = np.dtype(kind).itemsize
        return np.frombuffer(self.source.data, dtype=kind, count=self.source.data.size // width)


def fence_of(segment: Ints, codes: Ints) -> Ints:
    """Codes of segments as numbers that ascend across segments, including codes outside the
    range.
    """
    return (segment << (_CODE_BITS + 2)) + codes + 1

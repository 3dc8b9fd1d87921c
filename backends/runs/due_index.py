"""Which rows of a segment end next: row numbers in order of deadline, coarsely.

Deadlines are cut to 16 bits, `(deadline - base_ms) >> shift`, and rows are ordered by that code:
a radix sort, and 6 bytes a row. A code says when a row can be due, never that it is: whoever asks
reads the deadlines of the few rows it is given.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.reading import Reading, Touch
from idlestate.backends.runs.sorted_search import fences_of, first_at_least
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS

_CODE_BITS = 16
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DueIndex:
    """Rows in order of their code, and the fences of the codes (`sorted_search`)."""

    rows: npt.NDArray[np.uint32]
    codes: npt.NDArray[np.uint16]
    fences: npt.NDArray[np.uint16]
    base_ms: int
    shift: int

    @classmethod
    def of(cls, deadlines_ms: Ints, rows: Ints | None = None) -> "DueIndex":
        """The index of rows with these deadlines; None: of rows 0, 1 and so on."""
        if not len(deadlines_ms):
            none = np.zeros(0, dtype=np.uint16)
            return cls(none.astype(np.uint32), none, none, 0, 0)
        low, high = int(deadlines_ms.min()), int(deadlines_ms.max())
        shift = max(0, (high - low).bit_length() - _CODE_BITS)
        # Modulo 2**64, so that a span beyond int64 comes out right too.
        above = deadlines_ms.view(np.uint64) - np.int64(low).view(np.uint64)
        codes = (above >> np.uint64(shift)).astype(np.uint16)
        order = np.argsort(codes, kind="stable")
        found = order if rows is None else rows[order]
        codes = codes[order]
        return cls(found.astype(np.uint32), codes, fences_of(codes), low, shift)

    def between(self, after_ms: int, upto_ms: int) -> Reading[Ints]:
        """Rows that may have a deadline in (after_ms, upto_ms], every one that has."""
        begin, stop = yield from self._places(self._code(after_ms), self._code(upto_ms) + 1)
        yield [Touch.span(self.rows, begin, stop)]
        return self.rows[begin:stop].astype(np.int64)

    def following(self, after_ms: int) -> Reading[tuple[Ints, int]]:
        """What comes after `after_ms`: the rows of its own code, any of which may, and a time
        before which no other row does (`FOREVER_MS` when there is none).
        """
        code = self._code(after_ms)
        begin, stop = yield from self._places(code, code + 1)
        after = min(stop + 1, len(self.codes))
        yield [Touch.span(self.rows, begin, stop), Touch.span(self.codes, stop, after)]
        next_ms = FOREVER_MS
        if stop < len(self.codes):
            next_ms = self.base_ms + (int(self.codes[stop]) << self.shift)
        return self.rows[begin:stop].astype(np.int64), next_ms

    def _code(self, t_ms: int) -> int:
        """The code of a time; those of times before and after all of them are one beyond."""
        if t_ms < self.base_ms or t_ms == NEVER_MS:
            return -1
        return min((t_ms - self.base_ms) >> self.shift, 1 << _CODE_BITS)

    def _places(self, *codes: int) -> Reading[list[int]]:
        """For each code the first place with it or a higher one."""
        places = yield from first_at_least(self.codes, self.fences, np.array(codes))
        found: list[int] = places.tolist()
        return found

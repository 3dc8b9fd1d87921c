"""Which rows of a segment end next: row numbers in order of deadline, coarsely.

Deadlines are cut to 16 bits, `(deadline - base_ms) >> shift`, and rows are ordered by that code:
a radix sort, and 6 bytes a row. A code says when a row can be due, never that it is: whoever asks
reads the deadlines of the few rows it is given.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS

_CODE_BITS = 16
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DueIndex:
    """Rows in order of their code."""

    rows: npt.NDArray[np.uint32]
    codes: npt.NDArray[np.uint16]
    base_ms: int
    shift: int

    @classmethod
    def of(cls, deadlines_ms: Ints, rows: Ints | None = None) -> "DueIndex":
        """The index of rows with these deadlines; None: of rows 0, 1 and so on."""
        if not len(deadlines_ms):
            return cls(np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.uint16), 0, 0)
        low, high = int(deadlines_ms.min()), int(deadlines_ms.max())
        shift = max(0, (high - low).bit_length() - _CODE_BITS)
        # Modulo 2**64, so that a span beyond int64 comes out right too.
        above = deadlines_ms.view(np.uint64) - np.int64(low).view(np.uint64)
        codes = (above >> np.uint64(shift)).astype(np.uint16)
        order = np.argsort(codes, kind="stable")
        found = order if rows is None else rows[order]
        return cls(found.astype(np.uint32), codes[order], low, shift)

    def between(self, after_ms: int, upto_ms: int) -> Ints:
        """Rows that may have a deadline in (after_ms, upto_ms], every one that has."""
        begin = self._place(self._code(after_ms), "left")
        stop = self._place(self._code(upto_ms), "right")
        return self.rows[begin:stop].astype(np.int64)

    def following(self, after_ms: int) -> tuple[Ints, int]:
        """What comes after `after_ms`: the rows of its own code, any of which may, and a time
        before which no other row does (`FOREVER_MS` when there is none).
        """
        code = self._code(after_ms)
        begin, stop = self._place(code, "left"), self._place(code, "right")
        next_ms = FOREVER_MS
        if stop < len(self.codes):
            next_ms = self.base_ms + (int(self.codes[stop]) << self.shift)
        return self.rows[begin:stop].astype(np.int64), next_ms

    def _code(self, t_ms: int) -> int:
        return (
            -1 if t_ms < self.base_ms or t_ms == NEVER_MS else (t_ms - self.base_ms) >> self.shift
        )

    def _place(self, code: int, side: str) -> int:
        if code < 0:
            return 0
        if code >= 1 << _CODE_BITS:
            return len(self.codes)
        wanted = np.uint16(code)
        return int(np.searchsorted(self.codes, wanted, side="left" if side == "left" else "right"))

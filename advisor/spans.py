"""When lives begin and end, as sorted times: how many are live at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from idlestate.retention.rules import Times


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Lives under one window.

    Attributes:
        begins: arrays of ascending times (ms); together they hold one per life.
        ends: the same of ends, each `end_shift_ms` earlier than the life ends.
        end_shift_ms: see `ends`.
    """

    begins: Sequence[Times]
    ends: Sequence[Times]
    end_shift_ms: int

    def begun(self, times_ms: Times) -> Times:
        """How many lives have begun at each of these times, that time included."""
        return _until(self.begins, times_ms)

    def ended(self, times_ms: Times) -> Times:
        """How many of them have ended; a life has ended at its deadline."""
        return _until(self.ends, times_ms - self.end_shift_ms)


def _until(parts: Sequence[Times], times_ms: Times) -> Times:
    counts = np.zeros(len(times_ms), dtype=np.int64)
    for part in parts:
        counts += np.searchsorted(part, times_ms, side="right")
    return counts

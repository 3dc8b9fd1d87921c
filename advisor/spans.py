"""When lives begin and end, as sorted times, and how many do so within ranges of time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.retention.rules import Times

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Ascending times (ms). With `gaps`, only times with a gap of `least_gap_ms` or more count."""

    times_ms: Times
    gaps: Times | None = None
    least_gap_ms: int = 0

    def since(self, stretches_ms: Times) -> Ints:
        """The cumulative number of times in each range.

        Args:
            stretches_ms: one row of ascending times per range; ranges do not overlap.

        Returns:
            For each time, how many are after the first time of its row and not after it.
        """
        low = np.searchsorted(self.times_ms, stretches_ms[:, 0], side="right")
        high = np.searchsorted(self.times_ms, stretches_ms[:, -1], side="right")
        inside = self._counting(low, high)
        found = np.searchsorted(inside, stretches_ms, side="right")
        return found - found[:, :1]

    def _counting(self, low: Ints, high: Ints) -> Times:
        """The times that count at positions low..high of each range."""
        if len(low) == 1:
            at: slice | Ints = slice(int(low[0]), int(high[0]))
        else:
            sizes = high - low
            at = np.repeat(low - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        inside = self.times_ms[at]
        return inside if self.gaps is None else inside[self.gaps[at] >= self.least_gap_ms]


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Lives under one window.

    Attributes:
        begins: together, they contain the begin of each life.
        ends: the same for ends, each `end_shift_ms` before the life ends.
        end_shift_ms: see `ends`.
    """

    begins: Sequence[Moments]
    ends: Sequence[Moments]
    end_shift_ms: int

    def since(self, stretches_ms: Times) -> tuple[Ints, Ints]:
        """The cumulative numbers of lives that begin and end in each range, as in `Moments.since`.

        A life has ended at its deadline.
        """
        ends_ms = stretches_ms - self.end_shift_ms
        begun = np.add.reduce([each.since(stretches_ms) for each in self.begins])
        ended = np.add.reduce([each.since(ends_ms) for each in self.ends])
        return begun, ended

"""When keys of the keyed state library are due: noted once, and compared with the time of each
scrape.

So the expiry lag grows while no sweep runs, and keys become due without a further call.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.time_bins import KeyTimes, TimeBins

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DueTimes:
    """Times of one time domain. Those before 1970 count as 1970.

    Attributes:
        times: the times, to be counted.
        first_ms: the earliest one; `FOREVER_MS` if there is none.
        watermark_ms: the watermark when they were noted; None in processing time.
    """

    times: KeyTimes
    first_ms: int
    watermark_ms: int | None

    @classmethod
    def of(cls, times_ms: Times, watermark_ms: int | None) -> "DueTimes":
        """These times, in any order.

        Args:
            times_ms: when keys are due, ms since the epoch.
            watermark_ms: the watermark in event time, None in processing time.
        """
        times_ms = np.maximum(times_ms, 0)
        first_ms = int(times_ms.min(initial=FOREVER_MS))
        return cls(KeyTimes([TimeBins.of(times_ms, len(times_ms))]), first_ms, watermark_ms)

    def lag_ms(self, now_ms: int) -> int:
        """How long the earliest key has been overdue by then, or by the watermark; 0 if it is not.

        Args:
            now_ms: the wall clock, which counts in processing time.
        """
        return max(self._time_ms(now_ms) - self.first_ms, 0)

    def count(self, now_ms: int, within_ms: int) -> int:
        """How many keys are overdue or due within this span of then, or of the watermark.

        Args:
            now_ms: as for `lag_ms`.
            within_ms: the span.
        """
        return int(self.times.count([min(self._time_ms(now_ms) + within_ms, FOREVER_MS)])[0])

    def _time_ms(self, now_ms: int) -> int:
        return now_ms if self.watermark_ms is None else self.watermark_ms

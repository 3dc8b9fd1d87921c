"""The most keys live at once, exactly, from counts at a few times.

Between two times no more keys can be live than were at the first plus those that begin a life on
the way. So most stretches of a log cannot hold the peak; the others are divided further, until
none is left or they are a millisecond long. A log answers only how many lives have begun and ended
at given times, which its parts can count each on its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.advisor.window import Window
from idlestate.retention.rules import Times

Ints = npt.NDArray[np.int64]
Live = Callable[[Sequence[tuple[Window, Times]]], list[tuple[Ints, Ints]]]
"""As `LogPart.live`."""

PIECES = 1024
"""So many times are asked for in a round, for each window."""


@dataclass(frozen=True, slots=True, eq=False)
class _Stretches:
    """Stretches of time (low, high] in which more keys may be live than found so far."""

    low: Times
    high: Times

    def times(self) -> Times:
        """Times from low to high of each stretch, one row for each."""
        pieces = max(2, PIECES // len(self.low))
        width = (self.high - self.low)[:, None]
        times: Times = self.low[:, None] + width * np.arange(pieces + 1) // pieces
        return times


def peaks(live: Live, windows: Sequence[Window], first_ms: int, last_ms: int) -> list[int]:
    """The most keys live at once under each window.

    Args:
        live: counts of lives begun and ended.
        windows: the windows.
        first_ms: the first event.
        last_ms: the last event; later, lives only end.
    """
    best = dict.fromkeys(range(len(windows)), 0)
    whole = _Stretches(np.array([first_ms - 1]), np.array([last_ms]))
    pending = dict.fromkeys(best, whole)
    while pending:
        times = {at: stretches.times() for at, stretches in pending.items()}
        answers = live([(windows[at], times[at].ravel()) for at in pending])
        following = {}
        for at, answer in zip(pending, answers, strict=True):
            begun, ended = (count.reshape(times[at].shape) for count in answer)
            best[at] = max(best[at], int((begun - ended).max()))
            low, high = times[at][:, :-1], times[at][:, 1:]
            is_open = (begun[:, 1:] - ended[:, :-1] > best[at]) & (high - low > 1)
            if is_open.any():
                following[at] = _Stretches(low[is_open], high[is_open])
        pending = following
    return [best[at] for at in range(len(windows))]

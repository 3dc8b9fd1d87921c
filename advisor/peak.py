"""The most keys live at once, exactly, from counts at a few times.

Between two times no more keys can be live than were at the first plus those that begin a life on
the way, or than are at the second plus those that end one on the way. So most stretches of a log
cannot hold the peak; the others are divided further, until none is left or they are a millisecond
long. A log answers only how many lives begin and end within stretches, which its parts can count
each on its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.advisor.window_ladder import Window
from idlestate.retention.rules import Times

Ints = npt.NDArray[np.int64]
Live = Callable[[Sequence[tuple[Window, Times]]], list[tuple[Ints, Ints]]]
"""As `LogPart.live`."""


@dataclass(frozen=True, slots=True, eq=False)
class _Stretches:
    """Stretches of time (low, high] in which more keys may be live than found so far."""

    low: Times
    high: Times
    live_at_low: Ints

    def times(self, most: int) -> Times:
        """Times from low to high of each stretch, one row for each."""
        width = (self.high - self.low)[:, None]
        pieces = max(2, min(most // len(self.low), int(width.max())))
        times: Times = self.low[:, None] + width * np.arange(pieces + 1) // pieces
        return times


def peaks(
    live: Live, windows: Sequence[Window], first_ms: int, last_ms: int, pieces: int
) -> list[int]:
    """The most keys live at once under each window.

    Args:
        live: counts of lives that begin and end.
        windows: the windows.
        first_ms: the first event.
        last_ms: the last event; later, lives only end.
        pieces: so many times are asked for in a round, for each window.
    """
    best = dict.fromkeys(range(len(windows)), 0)
    nothing = np.zeros(1, dtype=np.int64)
    whole = _Stretches(np.array([first_ms - 1]), np.array([last_ms]), nothing)
    pending = dict.fromkeys(best, whole)
    while pending:
        times = {at: stretches.times(pieces) for at, stretches in pending.items()}
        answers = live([(windows[at], times[at]) for at in pending])
        following = {}
        for at, (begun, ended) in zip(pending, answers, strict=True):
            alive = pending[at].live_at_low[:, None] + begun - ended
            best[at] = max(best[at], int(alive.max()))
            low, high = times[at][:, :-1], times[at][:, 1:]
            most = np.minimum(
                alive[:, :-1] + np.diff(begun, axis=1), alive[:, 1:] + np.diff(ended, axis=1)
            )
            is_open = (most > best[at]) & (high - low > 1)
            if is_open.any():
                following[at] = _Stretches(low[is_open], high[is_open], alive[:, :-1][is_open])
        pending = following
    return [best[at] for at in range(len(windows))]

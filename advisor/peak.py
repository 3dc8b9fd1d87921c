"""The most keys live at once, exactly, from counts at a few times.

Between two times, the number of live keys is at most that at the first time plus the lives that
begin in between, and at most that at the second time plus the lives that end in between. So most
ranges of time cannot contain the peak; the others are divided further, until none is left or they
are a millisecond long. A log only counts the lives that begin and end in ranges, which its parts
can do independently.
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
    """Ranges of time (low, high] in which more keys may be live than found so far."""

    low: Times
    high: Times
    live_at_low: Ints

    def times(self, most: int) -> Times:
        """Times from low to high of each range, one row per range."""
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
        pieces: the number of times per round and window.
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

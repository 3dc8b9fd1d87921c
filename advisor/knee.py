"""The knee: the window beyond which longer windows gain little.

The share of returning keys is plotted over the logarithm of the window, both scaled to 0..1. The
knee is where the curve is farthest below the straight line between its ends (Kneedle; Satopää et
al., 2011). Every curve has such a point, but where the curve is nearly straight it means nothing:
below a distance of `LEAST_DISTANCE` there is no knee.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from idlestate.advisor.event_log import EventLog
from idlestate.advisor.window_ladder import Window, lowest_ms

LEAST_DISTANCE = 0.2
"""Logs of real traffic were either below 0.1 or above 0.5."""
_POINTS = 200
_SECOND_MS = 1000


@dataclass(frozen=True, slots=True)
class Knee:
    """The bend of the curve.

    Attributes:
        window_ms: the window at the knee; None if there is none.
        distance: how far the curve is below a straight line there, 0 to 1.
    """

    window_ms: int | None
    distance: float


def find_knee(log: EventLog) -> Knee:
    """The knee of a log."""
    span_ms = log.extent.span_ms
    lowest = lowest_ms(span_ms)
    if span_ms <= 2 * lowest:
        return Knee(None, 0.0)
    grid = np.geomspace(lowest, span_ms, _POINTS) // _SECOND_MS * _SECOND_MS
    windows_ms = np.unique(np.maximum(grid, _SECOND_MS)).astype(np.int64).tolist()
    tallies = log.tallies([Window.single(each) for each in windows_ms], log.extent.last_ms)
    shares = [tally.returning / tally.created for tally in tallies]
    at, distance = _farthest(np.log(windows_ms).tolist(), shares)
    return Knee(windows_ms[at] if distance >= LEAST_DISTANCE else None, distance)


def _farthest(x: Sequence[float], y: Sequence[float]) -> tuple[int, float]:
    """Where a falling curve is farthest below the line between its ends, and how far."""
    low, high = y[-1], y[0]
    if high <= low:
        return 0, 0.0
    across = (np.array(x) - x[0]) / (x[-1] - x[0])
    distance = 1 - across - (np.array(y) - low) / (high - low)
    at = int(distance.argmax())
    return at, float(distance[at])

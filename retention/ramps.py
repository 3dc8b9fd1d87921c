"""Sums of steps and ramps over time, of many sums at once.

Each sum is stored as the straight line after each of its times, so its value at a moment costs one
search, regardless of the number of steps and ramps.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Ramps:
    """Steps and ramps that begin at times and are added up.

    Args:
        times_ms: their times, in any order; int64 or float64, shape (n,).
        steps: the increase of the sum at each time, shape (n,).
        slopes: the increase per millisecond from each time on, shape (n,).

    Attributes:
        times_ms: the times in order.
        base_ms: a time in the middle; relative to it, numbers are small enough to be exact.
        lines: value at the base and rise per millisecond, before the first time and from each one
            on, shape (n + 1, 2).
    """

    def __init__(self, times_ms: Ints | Floats, steps: Floats, slopes: Floats) -> None:
        order = np.argsort(times_ms)
        self.times_ms = times_ms[order]
        self.base_ms = float(self.times_ms[len(order) // 2]) if len(order) else 0.0
        rises = slopes[order]
        self.lines = np.zeros((len(order) + 1, 2))
        at_base = steps[order] - rises * (self.times_ms - self.base_ms)
        np.cumsum(at_base, out=self.lines[1:, 0])
        np.cumsum(rises, out=self.lines[1:, 1])

    @staticmethod
    def values(many: Sequence["Ramps"], moments_ms: Ints) -> Floats:
        """The values of many sums, each at its own moments.

        Args:
            many: the sums.
            moments_ms: int64, shape (sums, moments).

        Returns:
            float64 of the same shape.
        """
        if not many:
            return np.zeros(moments_ms.shape)
        lines = np.concatenate(
            [
                each.lines[each.times_ms.searchsorted(moments, "right")]
                for each, moments in zip(many, moments_ms, strict=True)
            ]
        ).reshape(*moments_ms.shape, 2)
        bases_ms = np.array([[each.base_ms] for each in many])
        found: Floats = lines[..., 0] + lines[..., 1] * (moments_ms - bases_ms)
        return found

"""Whether a figure grows: a robust slope over the second half of a run.

The slope is the median of the slopes between all pairs of moments (Theil and Sen): waves and noise
cancel out, and 29 % of the moments may be anything. Growth is what that slope adds up to over the
half, relative to the median level: 0.05 means five percent more at its end than at its begin.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOMENTS = 1000
"""Of a long run every so manieth moment counts: a million pairs are enough."""


@dataclass(frozen=True)
class Trend:
    """How a figure went over the second half."""

    name: str
    level: float
    growth: float
    bound: float

    @property
    def is_flat(self) -> bool:
        return self.growth <= self.bound

    def __str__(self) -> str:
        verdict = "flat" if self.is_flat else "GROWS"
        return (
            f"{self.name:<22} {self.level:>14,.0f}  {self.growth:+7.1%}  "
            f"(at most {self.bound:+.0%})  {verdict}"
        )


def trend(name: str, times: Sequence[float], values: Sequence[float], bound: float) -> Trend:
    """The trend of a figure over the second half of its time.

    Args:
        name: what it is called.
        times: ascending.
        values: the figure at these times.
        bound: growth above which it counts as growing.
    """
    at, value = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
    is_late = at >= (at[0] + at[-1]) / 2
    stride = -(-int(is_late.sum()) // MOMENTS)
    at, value = at[is_late][::stride], value[is_late][::stride]
    first, second = np.triu_indices(len(at), 1)
    slopes = (value[second] - value[first]) / (at[second] - at[first])
    level = float(np.median(value))
    growth = float(np.median(slopes) * (at[-1] - at[0])) / level if level else 0.0
    return Trend(name, level, growth, bound)

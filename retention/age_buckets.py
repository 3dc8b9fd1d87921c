"""The buckets in which ages of keys are counted: how long they were absent, how long idle."""

from typing import Final

import numpy as np

from idlestate.retention.durations import UNITS_MS
from idlestate.retention.rules import Times

_M, _H, _D = UNITS_MS["m"], UNITS_MS["h"], UNITS_MS["d"]
AGE_BUCKETS_MS: Final = (
    *(_M, 5 * _M, 15 * _M),
    *(_H, 3 * _H, 6 * _H, 12 * _H),
    *(_D, 2 * _D, 7 * _D, 30 * _D),
)
"""The inclusive upper bounds; older ages fall into an additional bucket."""


def count_ages(ages_ms: Times) -> tuple[int, ...]:
    """The number of ages in each bucket, not cumulative; the unbounded bucket is last."""
    buckets = np.searchsorted(AGE_BUCKETS_MS, ages_ms)
    return tuple(np.bincount(buckets, minlength=len(AGE_BUCKETS_MS) + 1).tolist())

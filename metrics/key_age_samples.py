"""When the keys of operators end, and how old they are at a moment. All operators are computed at
once, because a scrape of a thousand would take long one by one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idlestate.metrics.families import DUE_WITHIN_MS
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.samples import BucketCounts
from idlestate.retention.age_buckets import AGE_BUCKETS_MS
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.ramps import Ints
from idlestate.retention.rules import NEVER_MS
from idlestate.retention.time_bins import KeyTimes


class Due(NamedTuple):
    """Live keys by their deadline.

    Attributes:
        keys: those whose deadline is within a span, or has passed.
        staying: those whose deadline is later: the floor of forecasts.
    """

    keys: int
    staying: int


def keys_due(operators: Sequence[OperatorStatistics], now_ms: int) -> list[dict[str, Due]]:
    """The keys of each operator that are due within each of `names.DUE_WITHIN_MS`.

    Args:
        operators: the operators.
        now_ms: the wall clock, which counts in processing time.
    """
    moments_ms = _times_ms(operators, now_ms) + np.array([0, *DUE_WITHIN_MS.values()])
    moments_ms[:, 0] = [_closed_ms(each) for each in operators]
    counts = KeyTimes.counts([each.ends for each in operators], moments_ms)
    due = np.maximum(counts[:, 1:] - counts[:, :1], 0)
    keys = np.array([each.ends.keys for each in operators], dtype=np.int64)[:, None]
    staying = keys - counts[:, 1:]
    return [
        dict(zip(DUE_WITHIN_MS, map(Due, *both), strict=True))
        for both in zip(due.tolist(), staying.tolist(), strict=True)
    ]


def idle_ages(operators: Sequence[OperatorStatistics], now_ms: int) -> list[BucketCounts]:
    """The live keys of each operator by the time since their last access, in `names.AGE_BUCKETS_S`.

    Args:
        operators: the operators.
        now_ms: the wall clock, which counts in processing time.
    """
    accesses, times_ms = [each.accesses for each in operators], _times_ms(operators, now_ms)
    # A key is at most this old if it was last used after the moment this long ago.
    before = KeyTimes.counts(accesses, times_ms - np.array(AGE_BUCKETS_MS) - 1)
    keys = np.array([each.keys for each in accesses], dtype=np.int64)[:, None]
    counts = np.diff(keys - before, axis=1, prepend=0, append=keys)
    sums_s = KeyTimes.sums_of_ages_ms(accesses, times_ms[:, 0]) / 1000
    return list(map(BucketCounts, map(tuple, counts.tolist()), sums_s.tolist()))


def _times_ms(operators: Sequence[OperatorStatistics], now_ms: int) -> Ints:
    """The time of each operator, shape (operators, 1)."""
    return np.array([each.time_ms(now_ms) for each in operators], dtype=np.int64)[:, None]


def _closed_ms(figures: OperatorStatistics) -> int:
    """Lives that ended up to this time, before the first open life, have been closed since the
    scan.
    """
    end_ms = figures.next_end_ms
    return NEVER_MS if end_ms is None or end_ms == FOREVER_MS else end_ms - 1

"""Forecasts of an operator's state: in an hour, in a day, and when a budget is full.

State that expires follows the day, so every forecast compares with the same time of the days
before. A straight line through the last hours does not: on a daily wave it is off by twice the
state, and says "full tomorrow" every morning.

- In one hour: now, plus what yesterday brought in that hour, in proportion to today's size (at most
  twice as much). Needs 25 hours of history; with one hour or more, what the last hour brought.
- In 24 hours: now, plus the change from one day to the next. The expected value takes the median of
  the last three days, so one step up or down does not count, and is forgotten a day later. The
  range spans the changes of the last week, as seen in the last hour. Needs two days.
- Until a budget is full: each time of day in the next week gets yesterday's size plus its daily
  change for every day. Needs two days; before, only the next hour is known.

With less history there is no figure. The functions are pure: a `Curve` in, numbers out; their cost
is a few passes over eight days of slots. docs/dashboards.md states how far off they are.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from idlestate.metrics.history import SLOT_MS, SLOTS_A_DAY, SLOTS_AN_HOUR, Curve
from idlestate.retention.policy import FOREVER_MS, Policy

_MEDIAN_OF = 3
_MOST_TIMES = 2.0
_DAYS_AHEAD = 7
_SLOT_S = SLOT_MS // 1000


@dataclass(frozen=True, slots=True)
class Range:
    """Values that are expected: most likely `expected`, between `low` and `high` as in the past."""

    low: float
    expected: float
    high: float

    def at_least(self, floor: float) -> "Range":
        """The range with nothing below a floor."""
        return Range(max(self.low, floor), max(self.expected, floor), max(self.high, floor))


def settling_ms(policy: Policy) -> int:
    """How long a new operator fills up before its size compares with the day before, at most a day.

    That is its shortest window; 0 without an expiry rule, as state then grows from the start.
    """
    windows = (policy.idle_max_ms if policy.idle_on else 0, policy.ttl_ms, policy.max_lifetime_ms)
    shortest = min((each for each in windows if 0 < each < FOREVER_MS), default=0)
    return min(shortest, SLOTS_A_DAY * SLOT_MS)


def next_hour(curve: Curve) -> Range | None:
    """The value in one hour; None with less than an hour of history."""
    if len(curve) <= SLOTS_AN_HOUR:
        return None
    now = curve[-1]
    if len(curve) <= SLOTS_A_DAY + SLOTS_AN_HOUR:
        change = now - curve[-1 - SLOTS_AN_HOUR]
    else:
        then, later = curve[-1 - SLOTS_A_DAY], curve[-1 - SLOTS_A_DAY + SLOTS_AN_HOUR]
        times = min(now / then, _MOST_TIMES) if then else _MOST_TIMES
        change = (later - then) * times
    expected = max(float(now + change), 0.0)
    return Range(expected, expected, expected)


def next_day(curve: Curve) -> Range | None:
    """The value in 24 hours; None with less than two days of history."""
    if len(curve) <= 2 * SLOTS_A_DAY:
        return None
    changes = curve[SLOTS_A_DAY:] - curve[:-SLOTS_A_DAY]
    rows = _by_day(changes)
    lately = rows[:, -1 - SLOTS_AN_HOUR :]
    now = float(curve[-1])
    found = now + np.array([lately.min(), _usual(rows)[-1], lately.max()])
    low, expected, high = np.maximum(found, 0.0).tolist()
    return Range(min(low, expected), expected, max(high, expected))


def full_in_s(curve: Curve, budget: float) -> float:
    """Seconds until the value reaches a budget: 0 if it has, infinity if not within seven days."""
    if not len(curve):
        return math.inf
    if curve[-1] >= budget:
        return 0.0
    if len(curve) <= 2 * SLOTS_A_DAY:
        soon = next_hour(curve)
        if soon is None or soon.expected < budget:
            return math.inf
        return 3600.0 * float((budget - curve[-1]) / (soon.expected - curve[-1]))
    rows = _by_day(curve[SLOTS_A_DAY:] - curve[:-SLOTS_A_DAY])
    days = np.arange(1, _DAYS_AHEAD + 1)[:, None]
    ahead = (curve[-SLOTS_A_DAY:] + days * _usual(rows)).ravel()
    full = np.flatnonzero(ahead >= budget)
    return float((full[0] + 1) * _SLOT_S) if len(full) else math.inf


def _by_day(changes: Curve) -> NDArray[np.float64]:
    """Changes from day to day, one row per whole day, the newest last."""
    whole = len(changes) // SLOTS_A_DAY
    return changes[len(changes) - whole * SLOTS_A_DAY :].reshape(whole, SLOTS_A_DAY)


def _usual(rows: NDArray[np.float64]) -> Curve:
    """The usual change at each time of day: the median of three days, or the newest of fewer."""
    newest = rows[-_MEDIAN_OF:]
    usual: Curve = np.median(newest, axis=0) if len(newest) == _MEDIAN_OF else newest[-1]
    return usual

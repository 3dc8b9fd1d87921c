"""The metrics of operators, which are the same wherever an operator runs.

Nothing is counted here. State keeps the counts, exactly once; each scrape asks for the newest
`OperatorStatistics`, which have absolute values. A restart therefore continues the counters, and a
replayed batch is not counted twice. Only durations belong to this process and start at zero with
it.

Every series whose labels are known in advance exists from the first scrape on, at 0. Metrics that
do not apply to an operator, such as those of a missing budget, have no series.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from idlestate.metrics import families
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.families import Name
from idlestate.metrics.key_age_samples import idle_ages, keys_due
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.samples import BucketCounts, Labels, Samples, Value
from idlestate.retention.policy import FOREVER_MS

StatisticsAt: TypeAlias = Callable[[int], Sequence[OperatorStatistics]]
"""The newest figures of all operators, at a time of the wall clock (ms)."""

_PLAIN: Mapping[Name, Callable[[OperatorStatistics], float]] = {
    families.INPUT_ROWS: lambda f: f.input_rows,
    families.LATE_ROWS: lambda f: f.late_rows,
    families.LIVE_KEYS: lambda f: f.live_keys,
    families.STATE_BYTES: lambda f: f.state_bytes,
    families.REMEMBERED_KEYS: lambda f: f.remembered_keys,
    families.REMEMBERED_BYTES: lambda f: f.remembered_bytes,
    families.HELD_ROWS: lambda f: f.held_rows,
    families.KEYS_SEEN: lambda f: f.keys_seen,
    families.KEYS_CREATED: lambda f: f.keys_created,
    families.RETURNING_KEYS: lambda f: f.returning_keys,
    families.WATERMARK: lambda f: _timestamp_s(f.watermark_ms),
    families.LAST_BATCH: lambda f: _timestamp_s(f.batch_time_ms),
    families.BATCHES: lambda f: f.batches,
    families.RETENTION_MIN: lambda f: _span_s(f.policy.idle_min_ms if f.policy.idle_on else 0),
    families.RETENTION_MAX: lambda f: _span_s(f.policy.idle_max_ms if f.policy.idle_on else 0),
    families.RETENTION_TTL: lambda f: _span_s(f.policy.ttl_ms),
    families.RETENTION_LIFETIME: lambda f: _span_s(f.policy.max_lifetime_ms),
    families.POLICY_VERSION: lambda f: f.policy_version,
}
_BY_LABEL: Mapping[Name, Callable[[OperatorStatistics], Mapping[str, float]]] = {
    families.REJECTED_ROWS: lambda f: _bounded(f.rejected_rows, families.REJECT_REASONS),
    families.KEYS_EXPIRED: lambda f: _bounded(f.keys_expired, families.EXPIRY_REASONS),
    families.ROWS_BY_INPUT: lambda f: {name: of.read for name, of in f.inputs.items()},
    families.LATE_BY_INPUT: lambda f: {name: of.late for name, of in f.inputs.items()},
    families.REJECTED_BY_INPUT: lambda f: {name: of.rejected for name, of in f.inputs.items()},
    families.DISK_BYTES: lambda f: {
        part: f.disk_bytes.get(part, 0) for part in families.DISK_PARTS
    },
}
"""Families with an additional label, by its value."""
_OPTIONAL: Mapping[Name, Callable[[OperatorStatistics], float | BucketCounts | None]] = {
    families.SWEPT: lambda f: _optional_s(f.swept_ms),
    families.COMPACTED: lambda f: _optional_s(f.compacted_ms),
    families.BUDGET_KEYS: lambda f: f.budget.keys or None,
    families.BUDGET_BYTES: lambda f: f.budget.bytes or None,
}
"""Families that not every operator has."""


def _forecasts(figures: OperatorStatistics) -> dict[Labels, float]:
    """The known forecasts, by horizon and bound."""
    outlook = figures.outlook
    found: dict[Labels, float] = {}
    for horizon, keys in (("1h", outlook.in_1h), ("24h", outlook.in_24h)):
        if keys is not None:
            found |= {(horizon, "low"): keys.low, (horizon, "high"): keys.high}
    return found


_BY_LABELS: Mapping[Name, Callable[[OperatorStatistics], Mapping[Labels, float]]] = {
    families.BUDGET_FULL: lambda f: {(budget,): full_s for budget, full_s in f.full_s.items()},
    families.FORECAST: _forecasts,
}
"""Families with several additional labels, or with labels that not every operator has."""
SERIES: Final = 200
"""An upper bound of the series of one operator, with every histogram."""


class OperatorMetrics:
    """Exports the metrics of the operators of one process.

    Args:
        exporter: where they are exported.
        statistics_at: called once per scrape with the time. The label `operator` contains the uids
            in its result.
    """

    def __init__(self, exporter: Exporter, statistics_at: StatisticsAt) -> None:
        self._cap = exporter.cap
        self._statistics_at = statistics_at
        exporter.add(families.OF_OPERATOR, self._samples)

    def _samples(self, now_ms: int) -> Samples:
        every = self._statistics_at(now_ms)
        shown = self._cap.admitted(families.OPERATOR, (each.operator for each in every), SERIES)
        return samples_of([each for each in every if each.operator in shown], now_ms)


def samples_of(operators: Sequence[OperatorStatistics], now_ms: int) -> Samples:
    """The samples of operators.

    Args:
        operators: their figures.
        now_ms: the time, ms since the epoch.
    """
    found: dict[Name, dict[Labels, Value]] = {}
    one = [((each.operator,), each) for each in operators]
    for name, read in _PLAIN.items():
        found[name] = {labels: read(each) for labels, each in one}
    lags_s = ((labels, _optional_s(each.expiry_lag_ms(now_ms))) for labels, each in one)
    found[families.EXPIRY_LAG] = {labels: lag_s for labels, lag_s in lags_s if lag_s is not None}
    ages = zip(one, idle_ages(operators, now_ms), strict=True)
    found[families.IDLE_AGE] = {labels: counts for (labels, _), counts in ages}
    found[families.ABSENCE] = {labels: each.absences for labels, each in one}
    deadlines = [
        ((each.operator, within), due)
        for each, by_span in zip(operators, keys_due(operators, now_ms), strict=True)
        for within, due in by_span.items()
    ]
    found[families.KEYS_DUE] = {labels: due.keys for labels, due in deadlines}
    found[families.FORECAST_FLOOR] = {labels: due.staying for labels, due in deadlines}
    for name, read_all in _BY_LABEL.items():
        found[name] = {
            (each.operator, label): value
            for each in operators
            for label, value in read_all(each).items()
        }
    for name, read_each in _BY_LABELS.items():
        found[name] = {
            (each.operator, *labels): value
            for each in operators
            for labels, value in read_each(each).items()
        }
    for name, read_one in _OPTIONAL.items():
        values = ((labels, read_one(each)) for labels, each in one)
        found[name] = {labels: value for labels, value in values if value is not None}
    for name in families.DURATIONS:
        found[name] = {
            labels: each.durations[name] for labels, each in one if name in each.durations
        }
    return found


def _bounded(counts: Mapping[str, int], allowed: tuple[str, ...]) -> dict[str, int]:
    """Counts of all known reasons, 0 if there are none; unknown reasons are summed as one."""
    bounded = {reason: counts.get(reason, 0) for reason in allowed}
    if other := sum(count for reason, count in counts.items() if reason not in bounded):
        bounded[families.OTHER] = other
    return bounded


def _timestamp_s(time_ms: int | None) -> float:
    return 0.0 if time_ms is None else max(time_ms, 0) / 1000


def _optional_s(time_ms: int | None) -> float | None:
    return None if time_ms is None else time_ms / 1000


def _span_s(span_ms: int) -> float:
    return math.inf if span_ms >= FOREVER_MS else span_ms / 1000

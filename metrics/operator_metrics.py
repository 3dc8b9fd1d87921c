"""The Prometheus metrics of operators, the same whatever runs them.

Nothing is counted here. State keeps the counts, exactly once; each scrape asks for the newest
`OperatorFigures`, which have absolute values, and builds its metric families from them. A restart
therefore continues the counters, and a replayed batch is not counted twice. Only durations belong
to this process and start at zero with it.

Every series whose labels are known in advance exists from the first scrape on, at 0.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from idlestate.metrics import names
from idlestate.metrics.durations import BucketCounts, Durations
from idlestate.metrics.names import Name
from idlestate.metrics.operator_figures import OperatorFigures
from idlestate.metrics.plain_metrics import described, family
from idlestate.retention.policy import FOREVER_MS
from idlestate.timers.clock import Clock

Source: TypeAlias = Callable[[int], Sequence[OperatorFigures]]
"""The newest figures of all operators, at a time of the wall clock (ms)."""
Read: TypeAlias = Callable[[OperatorFigures], float]
ReadCounts: TypeAlias = Callable[[OperatorFigures], Mapping[str, int]]

_PLAIN: Mapping[Name, Read] = {
    names.INPUT_ROWS: lambda f: f.input_rows,
    names.LATE_ROWS: lambda f: f.late_rows,
    names.LIVE_KEYS: lambda f: f.live_keys,
    names.STATE_BYTES: lambda f: f.state_bytes,
    names.REMEMBERED_KEYS: lambda f: f.remembered_keys,
    names.REMEMBERED_BYTES: lambda f: f.remembered_bytes,
    names.KEYS_SEEN: lambda f: f.keys_seen,
    names.KEYS_CREATED: lambda f: f.keys_created,
    names.RETURNING_KEYS: lambda f: f.returning_keys,
    names.WATERMARK: lambda f: _timestamp_s(f.watermark_ms),
    names.LAST_BATCH: lambda f: _timestamp_s(f.batch_time_ms),
    names.BATCHES: lambda f: f.batches,
    names.RETENTION_MIN: lambda f: _span_s(f.policy.idle_min_ms if f.policy.idle_on else 0),
    names.RETENTION_MAX: lambda f: _span_s(f.policy.idle_max_ms if f.policy.idle_on else 0),
    names.RETENTION_TTL: lambda f: _span_s(f.policy.ttl_ms),
    names.RETENTION_LIFETIME: lambda f: _span_s(f.policy.max_lifetime_ms),
    names.POLICY_VERSION: lambda f: f.policy_version,
}
_BY_REASON: Mapping[Name, tuple[tuple[str, ...], ReadCounts]] = {
    names.REJECTED_ROWS: (names.REJECT_REASONS, lambda f: f.rejected_rows),
    names.KEYS_EXPIRED: (names.EXPIRY_REASONS, lambda f: f.keys_expired),
}


class OperatorMetrics(Collector):
    """Collects the metrics of the operators of one process.

    Args:
        registry: the registry to use; not the client library's global one.
        source: called once per scrape with the time. The label `operator` has the uids of what it
            answers, and these are bounded.
        clock: the wall clock.
        durations: the histograms of this process.

    Raises:
        ValueError: the registry already has these metrics.
    """

    def __init__(
        self, registry: CollectorRegistry, source: Source, clock: Clock, durations: Durations
    ) -> None:
        self._source = source
        self._clock = clock
        self._durations = durations
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """The families without samples; the registry rejects names that it already has."""
        return described((*names.OF_OPERATOR, *self._durations.names))

    def collect(self) -> Iterator[Metric]:
        """The current families, built for each scrape."""
        now_ms = self._clock.now_ms()
        operators = self._source(now_ms)
        for name, read in _PLAIN.items():
            found = family(name)
            for each in operators:
                found.add_metric([each.operator], read(each))
            yield found
        lag = family(names.EXPIRY_LAG)
        for each in operators:
            lag.add_metric([each.operator], each.expiry_lag_ms(now_ms) / 1000)
        yield lag
        for name, (reasons, read_counts) in _BY_REASON.items():
            found = family(name)
            for each in operators:
                for reason, count in _bounded(read_counts(each), reasons).items():
                    found.add_metric([each.operator, reason], count)
            yield found
        for name in self._durations.names:
            taken = {each.operator: self._durations.of(name, each.operator) for each in operators}
            yield _histogram(name, taken)


def _histogram(name: Name, counts: Mapping[str, BucketCounts]) -> Metric:
    found = HistogramMetricFamily(name.name, name.help, labels=name.labels)
    edges = [*map(str, name.buckets), "+Inf"]
    for operator, counted in counts.items():
        buckets, below = [], 0
        for edge, count in zip(edges, counted.counts, strict=True):
            below += count
            buckets.append((edge, float(below)))
        found.add_metric([operator], buckets, counted.sum)
    return found


def _bounded(counts: Mapping[str, int], allowed: tuple[str, ...]) -> dict[str, int]:
    """Counts of all known reasons, 0 if there are none; unknown reasons are summed as one."""
    bounded = {reason: counts.get(reason, 0) for reason in allowed}
    if other := sum(count for reason, count in counts.items() if reason not in bounded):
        bounded[names.OTHER] = other
    return bounded


def _timestamp_s(time_ms: int | None) -> float:
    return 0.0 if time_ms is None else max(time_ms, 0) / 1000


def _span_s(span_ms: int) -> float:
    return math.inf if span_ms >= FOREVER_MS else span_ms / 1000

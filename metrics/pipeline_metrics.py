"""The Prometheus metrics of a running pipeline.

Counters are not counted here. The state keeps them, exactly once; after each batch, the pipeline
passes an `OperatorFigures` with absolute values, and a scrape builds its metric families from the
newest one. A restart therefore continues the counters, and a replayed batch is not counted twice.
Only the durations of batches belong to this process and start at zero with it.

Every series whose labels are known in advance exists from the first scrape on, at 0.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from idlestate.metrics import names
from idlestate.metrics.operator_figures import OperatorFigures
from idlestate.retention.policy import FOREVER_MS

Read: TypeAlias = Callable[[OperatorFigures], float]

_PLAIN: tuple[tuple[names.Name, Read], ...] = (
    (names.INPUT_ROWS, lambda f: f.input_rows),
    (names.LATE_ROWS, lambda f: f.late_rows),
    (names.LIVE_KEYS, lambda f: f.live_keys),
    (names.STATE_BYTES, lambda f: f.state_bytes),
    (names.REMEMBERED_KEYS, lambda f: f.remembered_keys),
    (names.REMEMBERED_BYTES, lambda f: f.remembered_bytes),
    (names.KEYS_SEEN, lambda f: f.keys_seen),
    (names.KEYS_CREATED, lambda f: f.keys_created),
    (names.RETURNING_KEYS, lambda f: f.returning_keys),
    (names.WATERMARK, lambda f: _timestamp_s(f.watermark_ms)),
    (names.LAST_BATCH, lambda f: _timestamp_s(f.batch_time_ms)),
    (names.BATCHES, lambda f: f.batches),
    (names.RETENTION_MIN, lambda f: _span_s(f.policy.idle_min_ms if f.policy.idle_on else 0)),
    (names.RETENTION_MAX, lambda f: _span_s(f.policy.idle_max_ms if f.policy.idle_on else 0)),
    (names.RETENTION_TTL, lambda f: _span_s(f.policy.ttl_ms)),
    (names.RETENTION_LIFETIME, lambda f: _span_s(f.policy.max_lifetime_ms)),
    (names.POLICY_VERSION, lambda f: f.policy_version),
)

_BY_REASON: tuple[
    tuple[names.Name, tuple[str, ...], Callable[[OperatorFigures], Mapping[str, int]]], ...
] = (
    (names.REJECTED_ROWS, names.REJECT_REASONS, lambda f: f.rejected_rows),
    (names.KEYS_EXPIRED, names.EXPIRY_REASONS, lambda f: f.keys_expired),
)


@dataclass(slots=True)
class _Durations:
    """Batch durations of one operator, by bucket; the last one is for all longer ones."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(names.BATCH_BUCKETS_S) + 1))
    sum_s: float = 0.0


class PipelineMetrics(Collector):
    """Collects the metrics of the operators of one process.

    Args:
        registry: the registry to use; not the client library's global one.
        operators: uids of the operators to report on. Only these are label values; figures of other
            operators are dropped and counted.
        version: the running version of idlestate, for `idlestate_build_info`.

    Raises:
        ValueError: the registry already has these metrics, or an operator is listed twice.
    """

    def __init__(
        self, registry: CollectorRegistry, operators: Sequence[str], *, version: str
    ) -> None:
        if len(set(operators)) != len(operators):
            raise ValueError(f"operators are listed twice: {', '.join(operators)}")
        self._version = version
        self._lock = Lock()
        self._figures = {uid: OperatorFigures(operator=uid) for uid in operators}
        self._durations = {uid: _Durations() for uid in operators}
        self._dropped = 0
        self._reloads = dict.fromkeys(names.RELOAD_RESULTS, 0)
        self._reload_good = False
        self._reload_ms = 0
        registry.register(self)

    def update(self, figures: OperatorFigures) -> bool:
        """Set the figures of a batch; figures of older batches than the newest are ignored.

        Returns:
            Whether a scrape now shows them.
        """
        with self._lock:
            newest = self._figures.get(figures.operator)
            if newest is None:
                self._dropped += 1
                return False
            if figures.batch_id < newest.batch_id:
                return False
            self._figures[figures.operator] = figures
            return True

    def observe_batch(self, operator: str, seconds: float) -> None:
        """Count a batch of `operator` and its duration in seconds."""
        with self._lock:
            durations = self._durations.get(operator)
            if durations is None:
                self._dropped += 1
                return
            durations.counts[bisect_left(names.BATCH_BUCKETS_S, seconds)] += 1
            durations.sum_s += seconds

    def count_reload(self, *, good: bool, now_ms: int) -> None:
        """Count a reload of the configuration, by whether it was applied."""
        with self._lock:
            self._reloads["success" if good else "failure"] += 1
            self._reload_good = good
            if good:
                self._reload_ms = now_ms

    def newest(self, operator: str) -> OperatorFigures:
        """The figures that a scrape shows for `operator`.

        Raises:
            KeyError: the operator is not one of those that were passed to the constructor.
        """
        with self._lock:
            return self._figures[operator]

    def describe(self) -> Iterable[Metric]:
        """The families without samples; the registry rejects names that it already has."""
        return [
            Metric(name.name.removesuffix("_total"), name.help, name.kind.value)
            for name in names.ALL
        ]

    def collect(self) -> Iterator[Metric]:
        """The current families, built for each scrape."""
        with self._lock:
            figures = list(self._figures.values())
            durations = {
                uid: (list(taken.counts), taken.sum_s) for uid, taken in self._durations.items()
            }
            dropped = self._dropped
            reloads, good, good_ms = dict(self._reloads), self._reload_good, self._reload_ms
        for name, read in _PLAIN:
            family = _family(name)
            for of_operator in figures:
                family.add_metric([of_operator.operator], read(of_operator))
            yield family
        for name, reasons, by_reason in _BY_REASON:
            family = _family(name)
            for of_operator in figures:
                for reason, count in _bounded(by_reason(of_operator), reasons).items():
                    family.add_metric([of_operator.operator, reason], count)
            yield family
        yield _histogram(durations)
        family = _family(names.CONFIG_RELOADS)
        for result, count in reloads.items():
            family.add_metric([result], count)
        yield family
        plain = (
            (names.CONFIG_RELOAD_GOOD, float(good)),
            (names.CONFIG_RELOAD_TIME, _timestamp_s(good_ms)),
            (names.DROPPED_FIGURES, dropped),
        )
        for name, value in plain:
            family = _family(name)
            family.add_metric([], value)
            yield family
        family = _family(names.BUILD_INFO)
        family.add_metric([self._version], 1)
        yield family


def _family(name: names.Name) -> CounterMetricFamily | GaugeMetricFamily:
    """The empty family of a counter or a gauge."""
    make = CounterMetricFamily if name.kind is names.MetricKind.COUNTER else GaugeMetricFamily
    return make(name.name, name.help, labels=name.labels)


def _histogram(durations: Mapping[str, tuple[list[int], float]]) -> Metric:
    name = names.BATCH_DURATION
    family = HistogramMetricFamily(name.name, name.help, labels=name.labels)
    edges = [*map(str, names.BATCH_BUCKETS_S), "+Inf"]
    for operator, (counts, sum_s) in durations.items():
        buckets, below = [], 0
        for edge, count in zip(edges, counts, strict=True):
            below += count
            buckets.append((edge, float(below)))
        family.add_metric([operator], buckets, sum_s)
    return family


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

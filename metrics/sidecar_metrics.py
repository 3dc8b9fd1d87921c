"""Prometheus metrics of a sidecar, in addition to those that it shares with pipelines.

As there, this module counts nothing: each scrape asks the sidecar for its current figures. The
values of the label `operator` are the uids of the sidecar's operators, which are bounded.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from idlestate.metrics import names
from idlestate.metrics.names import OPERATOR, PREFIX, RESULT, MetricKind, Name


def _name(name: str, kind: MetricKind, text: str, *labels: str) -> Name:
    end = "_total" if kind is MetricKind.COUNTER else ""
    return Name(f"{PREFIX}{name}{end}", kind, text, labels)


COMMITTED_BATCH: Final = _name(
    "committed_batch", MetricKind.GAUGE, "Newest committed batch of the owner query.", OPERATOR
)
EXPIRED_KEPT: Final = _name(
    "expired_records_kept",
    MetricKind.GAUGE,
    "Expired records kept until all consumers acknowledge them or their retention ends.",
    OPERATOR,
)
EXPIRED_NUMBERED: Final = _name(
    "expired_records", MetricKind.COUNTER, "Expired records produced.", OPERATOR
)
WAITING_WRITES: Final = _name(
    "waiting_writes",
    MetricKind.GAUGE,
    "Direct writes that wait for the open batch to end.",
    OPERATOR,
)
QUARANTINED: Final = _name(
    "quarantined_rows",
    MetricKind.GAUGE,
    "Quarantined rows: acknowledged direct writes that could not be applied after a batch.",
    OPERATOR,
)
DUPLICATES: Final = _name(
    "duplicate_writes",
    MetricKind.COUNTER,
    "Direct writes ignored because their writer had already sent an equal or higher number.",
    OPERATOR,
)
FORGOTTEN_CONSUMERS: Final = _name(
    "forgotten_consumers",
    MetricKind.COUNTER,
    "Consumers dropped because they acknowledged no expired records for the whole retention.",
    OPERATOR,
)
STOPPED: Final = _name(
    "operator_stopped",
    MetricKind.GAUGE,
    "Whether the operator is stopped (1) until someone takes manual action, or runs (0).",
    OPERATOR,
)
STORE_BYTES: Final = _name(
    "sidecar_store_bytes", MetricKind.GAUGE, "Size of the store on disk in bytes."
)
WORKERS: Final = _name(
    "sidecar_workers",
    MetricKind.GAUGE,
    "Running worker processes; 1 if the sidecar has no workers.",
)
WORKER_RESTARTS: Final = _name(
    "sidecar_worker_restarts",
    MetricKind.COUNTER,
    "Worker processes restarted after they died.",
)
EXCHANGES: Final = _name("sidecar_exchanges", MetricKind.GAUGE, "Task exchanges in progress.")
SWEEP_BEHIND: Final = _name(
    "sidecar_sweep_behind_seconds",
    MetricKind.GAUGE,
    "Sweep lag: age of the oldest expired key that is still stored, in its operator's time (wall "
    "clock or watermark); 0 if there is none.",
)
CLOCK_DIVERGENCE: Final = _name(
    "sidecar_clock_divergence_seconds",
    MetricKind.GAUGE,
    "How far the wall clock has moved ahead of the monotonic clock since it was last accepted.",
)
CLOCK_STEPPED: Final = _name(
    "sidecar_clock_stepped",
    MetricKind.GAUGE,
    "Whether sweeps are paused because the wall clock jumped (1), or not (0).",
)
TROUBLES: Final = _name(
    "sidecar_job_troubles",
    MetricKind.COUNTER,
    "Background jobs that failed, were missed or overlapped, by result.",
    RESULT,
)

OF_OPERATOR: Final = (
    names.LIVE_KEYS,
    names.STATE_BYTES,
    names.REMEMBERED_KEYS,
    names.REMEMBERED_BYTES,
    names.KEYS_SEEN,
    names.KEYS_CREATED,
    names.RETURNING_KEYS,
    COMMITTED_BATCH,
    EXPIRED_KEPT,
    EXPIRED_NUMBERED,
    WAITING_WRITES,
    QUARANTINED,
    DUPLICATES,
    FORGOTTEN_CONSUMERS,
    STOPPED,
)
OF_PROCESS: Final = (
    STORE_BYTES,
    WORKERS,
    WORKER_RESTARTS,
    EXCHANGES,
    SWEEP_BEHIND,
    CLOCK_DIVERGENCE,
    CLOCK_STEPPED,
    names.CONFIG_RELOAD_GOOD,
    names.CONFIG_RELOAD_TIME,
)
BY_RESULT: Final = (TROUBLES, names.CONFIG_RELOADS)


@dataclass(frozen=True, slots=True)
class SidecarFacts:
    """The current figures of a sidecar, by metric."""

    process: Mapping[Name, float]
    by_result: Mapping[Name, Mapping[str, float]]
    operators: Mapping[str, Mapping[Name, float]] = field(default_factory=dict)
    expired: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Expired keys, by operator and reason."""


class SidecarMetrics(Collector):
    """Collects the metrics of one sidecar.

    Args:
        registry: where to register.
        facts: called once per scrape.
        version: the running version of idlestate.
    """

    def __init__(
        self, registry: CollectorRegistry, facts: Callable[[], SidecarFacts], *, version: str
    ) -> None:
        self._facts = facts
        self._version = version
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """The families without samples; the registry rejects names that it already has."""
        every = (*OF_OPERATOR, *OF_PROCESS, *BY_RESULT, names.KEYS_EXPIRED, names.BUILD_INFO)
        for name in every:
            yield Metric(name.name.removesuffix("_total"), name.help, name.kind.value)

    def collect(self) -> Iterator[Metric]:
        """The families with their current samples."""
        facts = self._facts()
        for name in OF_OPERATOR:
            family = _family(name)
            for uid, figures in facts.operators.items():
                family.add_metric([uid], figures[name])
            yield family
        family = _family(names.KEYS_EXPIRED)
        for uid, reasons in facts.expired.items():
            for reason in names.EXPIRY_REASONS:
                family.add_metric([uid, reason], reasons[reason])
        yield family
        for name in OF_PROCESS:
            family = _family(name)
            family.add_metric([], facts.process[name])
            yield family
        for name in BY_RESULT:
            family = _family(name)
            for result, count in facts.by_result[name].items():
                family.add_metric([result], count)
            yield family
        family = _family(names.BUILD_INFO)
        family.add_metric([self._version], 1)
        yield family


def _family(name: Name) -> CounterMetricFamily | GaugeMetricFamily:
    make = CounterMetricFamily if name.kind is MetricKind.COUNTER else GaugeMetricFamily
    return make(name.name, name.help, labels=name.labels)

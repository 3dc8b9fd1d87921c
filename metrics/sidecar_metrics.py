"""What a sidecar shows to Prometheus, beside the names it shares with pipelines.

As there, nothing is counted here: a scrape asks the sidecar for its facts as of now. The label
`operator` takes the uids that the sidecar holds, which are bounded.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from idlestate.metrics import names
from idlestate.metrics.names import OPERATOR, PREFIX, RESULT, Kind, Name


def _name(name: str, kind: Kind, text: str, *labels: str) -> Name:
    end = "_total" if kind is Kind.COUNTER else ""
    return Name(f"{PREFIX}{name}{end}", kind, text, labels)


COMMITTED_BATCH: Final = _name(
    "committed_batch", Kind.GAUGE, "Newest batch of the owner query that counts.", OPERATOR
)
EXPIRED_KEPT: Final = _name(
    "expired_records_kept",
    Kind.GAUGE,
    "Expired records that wait for their consumers or for the end of their retention.",
    OPERATOR,
)
EXPIRED_NUMBERED: Final = _name(
    "expired_records", Kind.COUNTER, "Expired records numbered so far.", OPERATOR
)
WAITING_WRITES: Final = _name(
    "waiting_writes", Kind.GAUGE, "Direct writes that wait for a batch border.", OPERATOR
)
SET_ASIDE: Final = _name(
    "set_aside_writes_rows",
    Kind.GAUGE,
    "Rows of acknowledged direct writes that could not be applied at a batch border, and are kept.",
    OPERATOR,
)
DUPLICATES: Final = _name(
    "duplicate_writes",
    Kind.COUNTER,
    "Direct writes that changed nothing: their writer had sent a number that high before.",
    OPERATOR,
)
FORGOTTEN_CONSUMERS: Final = _name(
    "forgotten_consumers",
    Kind.COUNTER,
    "Consumers of expired records that acknowledged nothing for the whole retention.",
    OPERATOR,
)
STOPPED: Final = _name(
    "operator_stopped", Kind.GAUGE, "Whether it takes no batches until a person comes.", OPERATOR
)
STORE_BYTES: Final = _name("sidecar_store_bytes", Kind.GAUGE, "Size of the store on disk.")
WORKERS: Final = _name("sidecar_workers", Kind.GAUGE, "Processes that keep tables and answer.")
WORKER_RESTARTS: Final = _name(
    "sidecar_worker_restarts",
    Kind.COUNTER,
    "How often a worker process died and was started again.",
)
EXCHANGES: Final = _name("sidecar_exchanges", Kind.GAUGE, "Exchanges of tasks under way.")
SWEEP_BEHIND: Final = _name(
    "sidecar_sweep_behind_seconds",
    Kind.GAUGE,
    "How long ago the oldest key that is still in a table expired, by its operator's time (wall "
    "clock or watermark); 0 when there is none.",
)
CLOCK_DIVERGENCE: Final = _name(
    "sidecar_clock_divergence_seconds",
    Kind.GAUGE,
    "How far the wall clock is ahead of the monotonic one since it was last believed.",
)
CLOCK_STEPPED: Final = _name(
    "sidecar_clock_stepped",
    Kind.GAUGE,
    "Whether the wall clock is not believed, and sweeps wait (1), or not (0).",
)
TROUBLES: Final = _name(
    "sidecar_job_troubles",
    Kind.COUNTER,
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
    names.COMEBACKS,
    COMMITTED_BATCH,
    EXPIRED_KEPT,
    EXPIRED_NUMBERED,
    WAITING_WRITES,
    SET_ASIDE,
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
    """A sidecar as of now, by name of metric."""

    process: Mapping[Name, float]
    by_result: Mapping[Name, Mapping[str, float]]
    operators: Mapping[str, Mapping[Name, float]] = field(default_factory=dict)
    expired: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Lives ended, by operator and reason."""


class SidecarMetrics(Collector):
    """Collects the metrics of one sidecar.

    Args:
        registry: where to register.
        facts: asked for each scrape.
        version: the running version of idlestate.
    """

    def __init__(
        self, registry: CollectorRegistry, facts: Callable[[], SidecarFacts], *, version: str
    ) -> None:
        self._facts = facts
        self._version = version
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """The families without samples; the registry refuses names that it already has."""
        every = (*OF_OPERATOR, *OF_PROCESS, *BY_RESULT, names.KEYS_EXPIRED, names.BUILD_INFO)
        for name in every:
            yield Metric(name.name.removesuffix("_total"), name.help, name.kind.value)

    def collect(self) -> Iterator[Metric]:
        """The families as of now."""
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
    make = CounterMetricFamily if name.kind is Kind.COUNTER else GaugeMetricFamily
    return make(name.name, name.help, labels=name.labels)

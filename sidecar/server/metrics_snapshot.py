"""The metrics of a sidecar's process, and metrics of its operators that pipelines lack."""

from collections.abc import Callable, Sequence

from idlestate.metrics import sidecar_metrics as own
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.families import Name
from idlestate.metrics.operator_metrics import OperatorMetrics
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.reload_counts import ReloadCounts
from idlestate.metrics.rocksdb_metrics import rocksdb_samples
from idlestate.metrics.samples import Samples
from idlestate.sidecar.core.data_calls import Calls
from idlestate.sidecar.core.operator import Operator, Sizes
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.server.job_scheduler import Scheduler
from idlestate.sidecar.workers.worker_supervisor import Workers
from idlestate.timers.steady_clock import SteadyClock

_OF_OPERATOR: dict[Name, Callable[[Operator, Sizes], float]] = {
    own.COMMITTED_BATCH: lambda _, sizes: sizes.batch_id,
    own.EXPIRED_KEPT: lambda _, sizes: sizes.expired_kept,
    own.EXPIRED_NUMBERED: lambda _, sizes: sizes.next_seq,
    own.WAITING_WRITES: lambda _, sizes: sizes.waiting,
    own.QUARANTINED: lambda _, sizes: sizes.quarantined,
    own.DUPLICATES: lambda operator, _: operator.writes.duplicates,
    own.FORGOTTEN_CONSUMERS: lambda operator, _: operator.forgotten_consumers,
    own.STOPPED: lambda operator, _: float(operator.record.stopped is not None),
}


def sidecar_exporter(
    figures: Callable[[int], Sequence[OperatorStatistics]],
    clock: SteadyClock,
    facts: "SidecarSamples",
) -> Exporter:
    """All metrics of a sidecar."""
    exporter = Exporter(clock)
    OperatorMetrics(exporter, figures)
    exporter.add(own.OF_SIDECAR, facts.now)
    return exporter


class SidecarSamples:
    """Gathers the metrics other than the figures of operators."""

    def __init__(
        self,
        host: Host,
        clock: SteadyClock,
        calls: Calls,
        scheduler: Scheduler,
        workers: Workers | None,
        reloads: ReloadCounts,
    ) -> None:
        """Start without reading anything."""
        self._host = host
        self._clock = clock
        self._calls = calls
        self._scheduler = scheduler
        self._workers = workers
        self._reloads = reloads

    def now(self, now_ms: int) -> Samples:
        """The samples of `own.OF_SIDECAR`."""
        sizes = [(each, each.sizes()) for each in self._host]
        store_bytes = self._host.store.bytes_on_disk() + self._host.placement.bytes_on_disk()
        of_workers = [each.properties for each in self._workers.every] if self._workers else []
        return {
            **{
                name: {(each.state.uid,): read(each, size) for each, size in sizes}
                for name, read in _OF_OPERATOR.items()
            },
            own.STORE_BYTES: {(): store_bytes},
            own.WORKERS: {(): self._workers.up if self._workers else 1},
            own.WORKER_RESTARTS: {(): self._workers.restarts if self._workers else 0},
            own.EXCHANGES: {(): len(self._calls.exchanges)},
            own.CLOCK_DIVERGENCE: {(): self._clock.divergence_ms / 1000},
            own.CLOCK_STEPPED: {(): float(self._clock.is_stepped)},
            own.TROUBLES: {(result,): count for result, count in self._scheduler.troubles.items()},
            **self._reloads.samples(now_ms),
            **rocksdb_samples([self._host.store.properties(), *of_workers]),
        }

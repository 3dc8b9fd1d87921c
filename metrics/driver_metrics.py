"""The Prometheus metrics of a driver: of its operators, and of the process itself."""

from prometheus_client import CollectorRegistry

from idlestate.metrics import names
from idlestate.metrics.durations import Durations
from idlestate.metrics.newest_figures import NewestFigures
from idlestate.metrics.operator_metrics import OperatorMetrics
from idlestate.metrics.plain_metrics import PlainMetrics, Samples
from idlestate.metrics.reload_counts import ReloadCounts
from idlestate.timers.clock import Clock


class DriverMetrics:
    """What a driver exports.

    Args:
        registry: where to register; not the client library's global one.
        operators: uids of the operators to report on.
        clock: the wall clock.
        version: the running version of idlestate.

    Attributes:
        figures: takes the figures of batches.
        durations: takes the durations of batches.
        reloads: counts loads of the configuration.

    Raises:
        ValueError: the registry already has these metrics, or an operator is listed twice.
    """

    def __init__(
        self, registry: CollectorRegistry, *operators: str, clock: Clock, version: str
    ) -> None:
        self._version = version
        self.figures = NewestFigures(*operators)
        self.durations = Durations(names.BATCH_DURATION)
        self.reloads = ReloadCounts()
        OperatorMetrics(registry, self.figures.at, clock, self.durations)
        PlainMetrics(registry, names.OF_DRIVER, self._samples)

    def _samples(self) -> Samples:
        return {
            **self.reloads.samples(),
            names.DROPPED_FIGURES: {(): self.figures.dropped},
            names.BUILD_INFO: {(self._version,): 1},
        }

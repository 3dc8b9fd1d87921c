"""The metrics of a driver's operators, whose batches report to it."""

from collections.abc import Callable
from dataclasses import replace
from threading import Lock

from idlestate.metrics import families
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.history import HistoryFile
from idlestate.metrics.operator_forecasts import Outlooks
from idlestate.metrics.operator_metrics import OperatorMetrics
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.samples import Samples
from idlestate.metrics.step_durations import Durations
from idlestate.retention.budget import Budget, no_budget


class DriverMetrics:
    """Exports the newest figures of each operator; any thread may call it.

    Args:
        exporter: where they are exported.
        budget_for: the budget of an operator, by its uid; default: no budgets.
        file_of: as in `Outlooks`.

    Attributes:
        durations: takes the durations of batches.
        outlooks: takes the sizes of operators.
        dropped: progress reports that were dropped, so far.
    """

    def __init__(
        self,
        exporter: Exporter,
        budget_for: Callable[[str], Budget] = no_budget,
        file_of: Callable[[str], HistoryFile | None] = lambda _: None,
    ) -> None:
        self.outlooks = Outlooks(budget_for, file_of)
        self.durations = Durations(families.BATCH_DURATION)
        self.dropped = 0
        self._lock = Lock()
        self._figures: dict[str, OperatorStatistics] = {}
        OperatorMetrics(exporter, self.at)
        exporter.add((families.DROPPED_FIGURES,), self._samples)

    def show(self, figures: OperatorStatistics) -> None:
        """Export these figures of an operator from now on."""
        with self._lock:
            self._figures[figures.operator] = figures

    def at(self, _now_ms: int) -> list[OperatorStatistics]:
        """The newest figures of all operators."""
        with self._lock:
            every = list(self._figures.values())
        return [
            replace(
                self.outlooks.complete(each),
                durations=self.durations.of(each.operator),
                # Each batch sweeps. A sidecar sweeps on its own; the driver does not know when.
                swept_ms=None if each.next_end_ms is None else each.batch_time_ms or 0,
            )
            for each in every
        ]

    def _samples(self, _now_ms: int) -> Samples:
        return {families.DROPPED_FIGURES: {(): self.dropped}}

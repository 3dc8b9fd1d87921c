"""The metrics of a driver: of its operators, and of the process itself."""

from collections.abc import Callable
from dataclasses import replace

from idlestate.metrics import names
from idlestate.metrics.durations import Durations
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.newest_figures import NewestFigures
from idlestate.metrics.operator_figures import OperatorFigures
from idlestate.metrics.operator_metrics import OperatorMetrics
from idlestate.metrics.outlook import Outlooks
from idlestate.metrics.samples import Samples
from idlestate.retention.budget import Budget


class DriverMetrics:
    """What a driver exports of its operators.

    Args:
        exporter: where it is exported.
        operators: uids of the operators to report on, if they are known.
        budget_for: the budget of an operator, by its uid.

    Attributes:
        figures: takes the figures of batches.
        durations: takes the durations of batches.
        outlooks: takes the sizes of operators.

    Raises:
        ValueError: an operator is listed twice.
    """

    def __init__(
        self,
        exporter: Exporter,
        *operators: str,
        budget_for: Callable[[str], Budget] = lambda _: Budget(),
    ) -> None:
        self.outlooks = Outlooks(budget_for)
        self.figures = NewestFigures(*operators)
        self.durations = Durations(names.BATCH_DURATION)
        OperatorMetrics(exporter, self.at)
        exporter.add((names.DROPPED_FIGURES,), self._samples)

    def at(self, now_ms: int) -> list[OperatorFigures]:
        """The newest figures of all operators."""
        return [
            replace(
                self.outlooks.complete(each),
                durations=self.durations.of(each.operator),
                swept_ms=each.batch_time_ms or 0,  # each batch sweeps
            )
            for each in self.figures.at(now_ms)
        ]

    def _samples(self, _now_ms: int) -> Samples:
        return {names.DROPPED_FIGURES: {(): self.figures.dropped}}

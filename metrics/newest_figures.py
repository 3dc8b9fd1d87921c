"""The newest figures of operators whose batches report to this process."""

from threading import Lock

from idlestate.metrics.operator_figures import OperatorFigures


class NewestFigures:
    """Keeps the newest figures of each operator; any thread may call it.

    Args:
        operators: uids of the operators. Figures of other operators are dropped and counted.

    Attributes:
        dropped: figures of other operators, so far.

    Raises:
        ValueError: an operator is listed twice.
    """

    def __init__(self, *operators: str) -> None:
        if len(set(operators)) != len(operators):
            raise ValueError(f"operators are listed twice: {', '.join(operators)}")
        self._lock = Lock()
        self._figures = {uid: OperatorFigures(operator=uid) for uid in operators}
        self.dropped = 0

    def update(self, figures: OperatorFigures) -> bool:
        """Set the figures of a batch; figures of older batches than the newest are ignored.

        Returns:
            Whether a scrape now shows them.
        """
        with self._lock:
            newest = self._figures.get(figures.operator)
            if newest is None:
                self.dropped += 1
                return False
            if figures.batch_id < newest.batch_id:
                return False
            self._figures[figures.operator] = figures
            return True

    def newest(self, operator: str) -> OperatorFigures:
        """The figures that a scrape shows for `operator`.

        Raises:
            KeyError: the operator is not one of those that were passed to the constructor.
        """
        with self._lock:
            return self._figures[operator]

    def at(self, _now_ms: int) -> list[OperatorFigures]:
        """The newest figures of all operators: what a collector asks for at each scrape."""
        with self._lock:
            return list(self._figures.values())

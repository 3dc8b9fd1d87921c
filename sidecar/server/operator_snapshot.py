"""The figures of a sidecar's operators, as of now."""

from dataclasses import replace

from idlestate.backends.shards.shard_figures import ShardFigures
from idlestate.metrics.operator_figures import OperatorFigures
from idlestate.metrics.outlook import Outlooks
from idlestate.metrics.shard_totals import operator_figures
from idlestate.sidecar.core.operator import Operator
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.server.sweep_lag import Overdue


class OperatorSnapshot:
    """Adds operators up from their shards.

    Args:
        host: the operators.
        outlooks: what is expected of them; default: they have no budgets, and no past.
    """

    def __init__(self, host: Host, outlooks: Outlooks | None = None) -> None:
        self._host = host
        self._outlooks = outlooks or Outlooks()
        self._overdue = Overdue(host)

    def at(self, now_ms: int) -> list[OperatorFigures]:
        """The figures of all operators; batches are those of the owner query.

        Args:
            now_ms: the time.
        """
        ends_ms = self._overdue.next_ends_ms(now_ms)
        return [
            replace(
                self._outlooks.complete(figures),
                next_end_ms=ends_ms.get(figures.operator, figures.next_end_ms),
            )
            for figures in map(_figures, self._host)
        ]

    def note_sizes(self, now_ms: int) -> None:
        """Have the sizes of all operators noted, for their forecasts."""
        every = [_figures(each) for each in self._host]
        self._outlooks.keep(each.operator for each in every)
        for figures in every:
            self._outlooks.note(figures, figures.time_ms(now_ms))


def _figures(operator: Operator) -> OperatorFigures:
    record, shards = operator.state.now
    figures = operator_figures(
        operator.state.uid,
        record.policy,
        (ShardFigures.of(each, record.policy) for each in shards),
        batch_id=record.committed,
        batch_time_ms=record.batch_time_ms,
        policy_version=record.policy_version,
        reached_ms=record.reached_ms,
    )
    return replace(
        figures,
        swept_ms=operator.sweeper.swept_ms,
        compacted_ms=operator.sweeper.compacted_ms,
        durations=operator.state.durations.of(figures.operator),
    )

"""The figures of a sidecar's operators, as of now."""

from dataclasses import replace
from typing import TypeAlias

from idlestate.backends.shards.shard_figures import ShardFigures
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.metrics.operator_figures import OperatorFigures
from idlestate.metrics.outlook import Outlooks
from idlestate.metrics.shard_totals import operator_figures
from idlestate.sidecar.core.operator import Operator
from idlestate.sidecar.core.operator_record import OperatorRecord
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.server.sweep_lag import Overdue

Now: TypeAlias = tuple[OperatorRecord, list[ShardRecord]]


class OperatorSnapshot:
    """Adds operators up from their shards.

    What the store holds beside the values that operators name, such as those that it has not given
    back yet, counts as dead, for each operator in proportion to its own.

    Args:
        host: the operators.
        outlooks: what is expected of them; default: they have no budgets, and no past.
    """

    def __init__(self, host: Host, outlooks: Outlooks | None = None) -> None:
        self._host = host
        self._outlooks = outlooks or Outlooks()
        self._known: dict[str, tuple[Now, OperatorFigures]] = {}
        self._overdue = Overdue(host)

    def at(self, now_ms: int) -> list[OperatorFigures]:
        """The figures of all operators; batches are those of the owner query.

        Args:
            now_ms: the time.
        """
        ends_ms = self._overdue.next_ends_ms(now_ms)
        every = self._every()
        named = [sum(figures.disk_bytes.values()) for figures in every]
        spare = self._host.store.bytes_on_disk() + self._host.works.bytes_on_disk() - sum(named)
        return [
            replace(
                self._outlooks.complete(figures),
                next_end_ms=ends_ms.get(figures.operator, figures.next_end_ms),
                disk_bytes=_with_dead(figures, max(spare, 0) * own // max(sum(named), 1)),
            )
            for figures, own in zip(every, named, strict=True)
        ]

    def note_sizes(self, now_ms: int) -> None:
        """Have the sizes of all operators noted, for their forecasts."""
        every = self._every()
        self._outlooks.keep(each.operator for each in every)
        for figures in every:
            self._outlooks.note(figures, figures.time_ms(now_ms))

    def _every(self) -> list[OperatorFigures]:
        """The figures of all operators; those that have changed are added up anew."""
        known, found, every = self._known, {}, []
        for operator in self._host:
            uid, now = operator.state.uid, operator.state.now
            seen = known.get(uid)
            found[uid] = seen if seen and seen[0] is now else (now, _added_up(uid, now))
            every.append(_beside_shards(operator, found[uid][1]))
        self._known = found
        return every


def _beside_shards(operator: Operator, figures: OperatorFigures) -> OperatorFigures:
    """The figures with those that no shard has."""
    sizes = operator.sizes()
    return replace(
        figures,
        disk_bytes={
            **_with_dead(figures, sizes.prepared_bytes),
            "expired_log": sizes.expired_bytes,
        },
        swept_ms=operator.sweeper.swept_ms,
        compacted_ms=operator.sweeper.compacted_ms,
        durations=operator.state.durations.of(figures.operator),
    )


def _with_dead(figures: OperatorFigures, more: int) -> dict[str, int]:
    """Its bytes on disk with more that are dead."""
    return {**figures.disk_bytes, "dead": figures.disk_bytes["dead"] + more}


def _added_up(uid: str, now: Now) -> OperatorFigures:
    record, shards = now
    return operator_figures(
        uid,
        record.policy,
        (ShardFigures.of(each, record.policy) for each in shards),
        batch_id=record.committed,
        batch_time_ms=record.batch_time_ms,
        policy_version=record.policy_version,
        reached_ms=record.reached_ms,
    )

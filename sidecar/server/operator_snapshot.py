"""The current figures of a sidecar's operators."""

from dataclasses import replace
from typing import TypeAlias

from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_statistics import ShardStatistics
from idlestate.metrics.operator_forecasts import Outlooks
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.shard_totals import operator_statistics
from idlestate.sidecar.core.operator import Operator
from idlestate.sidecar.core.operator_record import OperatorRecord
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.server.sweep_lag import Overdue

Now: TypeAlias = tuple[OperatorRecord, list[ShardRecord]]


class OperatorSnapshot:
    """Sums the figures of shards per operator.

    Bytes of the store that no operator refers to, such as removed values that still take space,
    count as dead, for each operator in proportion to its own bytes.

    Args:
        host: the operators.
        outlooks: their forecasts; default: they have no budgets and no history.
    """

    def __init__(self, host: Host, outlooks: Outlooks | None = None) -> None:
        self._host = host
        self._outlooks = outlooks or Outlooks()
        self._known: dict[str, tuple[Now, OperatorStatistics]] = {}
        self._overdue = Overdue(host)

    def at(self, now_ms: int) -> list[OperatorStatistics]:
        """The figures of all operators; batches are those of the owner query.

        Args:
            now_ms: the time.
        """
        ends_ms = self.next_ends_ms(now_ms)
        every = self._every()
        named = [sum(figures.disk_bytes.values()) for figures in every]
        spare = self._host.store.bytes_on_disk() + self._host.placement.bytes_on_disk() - sum(named)
        return [
            replace(
                self._outlooks.complete(figures),
                next_end_ms=ends_ms.get(figures.operator, figures.next_end_ms),
                disk_bytes=_with_dead(figures, max(spare, 0) * own // max(sum(named), 1)),
            )
            for figures, own in zip(every, named, strict=True)
        ]

    def next_ends_ms(self, now_ms: int) -> dict[str, int]:
        """When the next open life of each operator ends or has ended.

        Args:
            now_ms: the time.
        """
        return self._overdue.next_ends_ms(now_ms)

    def note_sizes(self, now_ms: int) -> None:
        """Record the sizes of all operators for their forecasts."""
        every = self._every()
        self._outlooks.keep(each.operator for each in every)
        for figures in every:
            self._outlooks.note(figures, figures.time_ms(now_ms))

    def _every(self) -> list[OperatorStatistics]:
        """The figures of all operators; only those of changed operators are recomputed."""
        known, found, every = self._known, {}, []
        for operator in self._host:
            uid, now = operator.state.uid, operator.state.now
            seen = known.get(uid)
            found[uid] = seen if seen and seen[0] is now else (now, _added_up(uid, now))
            every.append(_beside_shards(operator, found[uid][1]))
        self._known = found
        return every


def _beside_shards(operator: Operator, figures: OperatorStatistics) -> OperatorStatistics:
    """The figures, with those that shards do not have."""
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


def _with_dead(figures: OperatorStatistics, more: int) -> dict[str, int]:
    """Its bytes on disk, with additional dead ones."""
    return {**figures.disk_bytes, "dead": figures.disk_bytes["dead"] + more}


def _added_up(uid: str, now: Now) -> OperatorStatistics:
    record, shards = now
    names = {name for each in shards for name in each.inputs}
    return operator_statistics(
        uid,
        record.policy,
        (ShardStatistics.of(each, record.policy) for each in shards),
        batch_id=record.committed,
        batch_time_ms=record.batch_time_ms,
        policy_version=record.policy_version,
        reached_ms=record.reached_ms,
        input_names=tuple(names),
    )

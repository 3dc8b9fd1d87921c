"""Follows a running query, for the live view and the growth log."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import newest_batch
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_report import ShardReport
from idlestate.metrics.growth_log import GrowthLog, GrowthPoint
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.pipeline.session_metrics import ObservedBatch, SessionMetrics
from idlestate.retention.policy import Policy

_POLL_S = 0.25
_LAST_REPORTS_S = 10.0


@dataclass(frozen=True, slots=True)
class Batch:
    """A finished batch: its id, rows that reached the operator, seconds taken, and the operator's
    figures after it.
    """

    batch_id: int
    rows: int
    seconds: float
    figures: OperatorStatistics


class Monitor:
    """Follows one operator of a query.

    Args:
        uid: the operator.
        policy: the policy in force before the first batch.
        checkpoint: the query's checkpoint.
        metrics: exports what the operator reports.
        growth: the growth log, which records its size after each batch.
    """

    def __init__(
        self,
        uid: str,
        policy: Policy,
        checkpoint: Folder,
        metrics: SessionMetrics,
        growth: GrowthLog,
    ) -> None:
        self._metrics = metrics
        self._growth = growth
        self._reports = metrics.operator(uid, policy, checkpoint)
        self._batches: SimpleQueue[ObservedBatch] = SimpleQueue()
        self._input_rows = 0
        metrics.follow(uid, self._batches.put)
        if newest_batch(checkpoint, "commits") is None:
            metrics.show(self._reports)

    @property
    def figures(self) -> OperatorStatistics:
        """The operator's figures now."""
        return self._reports.figures

    def begin_with(self, states: list[ShardRecord], batch_id: int) -> None:
        """Start with the state of the checkpoint's newest committed batch, and add batches whose
        progress never arrived to the growth log.
        """
        points: dict[int, list[tuple[int, int, int]]] = {}
        for state in states:
            for batch, reached_ms, live, seen in state.recent:
                points.setdefault(batch, []).append((reached_ms, live, seen))
        for batch in sorted(points):
            shards = points[batch]
            if len(shards) == len(states) and batch < batch_id:
                reached_each, live_each, seen_each = zip(*shards, strict=True)
                self._growth.append(
                    GrowthPoint(
                        batch_id=batch,
                        time_ms=max(reached_each),
                        live_keys=sum(live_each),
                        keys_seen=sum(seen_each),
                    )
                )
        self._reports.begin(states, batch_id)
        self._begin()

    def begin_with_reports(self, reports: list[ShardReport], batch_id: int) -> None:
        """Start with the state of a sidecar after its newest committed batch."""
        self._reports.begin_with(reports, batch_id)
        self._begin()

    def _begin(self) -> None:
        now = self.figures
        self._input_rows = now.input_rows
        self._metrics.show(self._reports)
        self._growth.append(GrowthPoint.of(now, self._reports.progress_ms))

    def follow(self, query: Any, look: Callable[[], None]) -> Iterator[Batch]:
        """The batches of a run of the query; `look` is called several times a second.

        Raises:
            StreamingQueryException: it failed.
        """
        while not query.awaitTermination(_POLL_S):
            look()
            yield from self.take()
        # The next start reads what is still missing from the checkpoint.
        self._metrics.wait_for_end(str(query.runId), _LAST_REPORTS_S)
        yield from self.take()

    def take(self) -> Iterator[Batch]:
        """The batches that were reported since the last call."""
        while True:
            try:
                batch = self._batches.get_nowait()
            except Empty:
                return
            self._growth.append(GrowthPoint.of(batch.figures, batch.progress_ms))
            # Spark's own count includes a sidecar's expired records, which are input to it too.
            rows = batch.figures.input_rows - self._input_rows
            self._input_rows += rows
            yield Batch(batch.batch_id, rows, batch.seconds, batch.figures)

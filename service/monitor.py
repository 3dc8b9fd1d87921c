"""Follows a running query: Spark's progress becomes figures, metrics and the growth log."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from idlestate.backends.files.batch_log import reached_watermark_ms, read_batch_times
from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.metrics import names
from idlestate.metrics.driver_metrics import DriverMetrics
from idlestate.metrics.growth import GrowthLog, GrowthPoint
from idlestate.metrics.operator_figures import OperatorFigures
from idlestate.pipeline.checkpoint.operator_layout import PolicyJournal, PolicyVersion
from idlestate.pipeline.shard_report import OBSERVATION, ShardReport, figures, report_of
from idlestate.retention.policy import Policy

_MS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class Batch:
    """A finished batch: its id, rows that reached the operator, seconds taken, and the operator's
    figures after it.
    """

    batch_id: int
    rows: int
    seconds: float
    figures: OperatorFigures


class Monitor:
    """Keeps the newest report of each shard of one operator.

    Reports are absolute, so that one that was lost is made up for by the next.
    """

    def __init__(
        self,
        uid: str,
        policy: Policy,
        checkpoint: Folder,
        metrics: DriverMetrics,
        growth: GrowthLog,
    ) -> None:
        """Nothing is known yet."""
        self._uid = uid
        self._checkpoint = checkpoint
        self._in_force = PolicyVersion(1, 0, policy)
        self._metrics = metrics
        self._growth = growth
        self._reports: dict[int, ShardReport] = {}
        self._seen_batch = -1
        self._input_rows = 0
        self._reached_ms = 0

    @property
    def figures(self) -> OperatorFigures:
        """The operator's figures now."""
        return figures(self._uid, self._in_force.policy, self._reports.values(), self._reached_ms)

    def begin_with(self, states: list[ShardRecord], batch_id: int) -> None:
        """Take over what the checkpoint holds after its newest committed batch, and add the
        batches to the growth log whose progress never arrived.
        """
        points: dict[int, list[tuple[int, int, int]]] = {}
        self._in_force = PolicyJournal(self._checkpoint, self._uid).for_batch(batch_id)
        times = read_batch_times(self._checkpoint, batch_id)
        for state in states:
            self._reports[state.shard] = report_of(state, self._in_force, times)
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
        self._input_rows = self.figures.input_rows
        self._follow_time(batch_id)
        self._show()

    def begin_with_reports(self, reports: list[ShardReport], batch_id: int) -> None:
        """Take over what a sidecar holds after its newest committed batch."""
        self._in_force = PolicyJournal(self._checkpoint, self._uid).for_batch(batch_id)
        self._reports = {report.shard: report for report in reports}
        self._input_rows = self.figures.input_rows
        self._follow_time(batch_id)
        self._show()

    def take(self, progress: list[Any]) -> Iterator[Batch]:
        """The batches among Spark's recent progress that were not seen before."""
        for each in progress:
            if each.batchId <= self._seen_batch:
                continue
            observed = (each.observedMetrics or {}).get(f"{OBSERVATION}{self._uid}")
            if observed is None:
                continue
            self._seen_batch = each.batchId
            for report in observed["shards"]:
                self._reports[report["shard"]] = ShardReport(**_plain(report))
            self._follow_policy()
            seconds = each.durationMs["triggerExecution"] / _MS_PER_S
            self._metrics.durations.observe(names.BATCH_DURATION, self._uid, seconds)
            self._follow_time(each.batchId)
            self._show()
            # Not as Spark counts them, to which a sidecar's expired records are input as well.
            rows = self.figures.input_rows - self._input_rows
            self._input_rows += rows
            yield Batch(each.batchId, rows, seconds, self.figures)

    def _follow_time(self, batch_id: int) -> None:
        """Have the watermark that the next batch will go by, by which keys may be overdue."""
        if self._checkpoint.exists(f"commits/{batch_id}"):
            self._reached_ms = reached_watermark_ms(self._checkpoint, batch_id)

    def _follow_policy(self) -> None:
        """Have the policy that the newest reports went by."""
        known = [report.policy_version for report in self._reports.values()]
        version = max(known, default=self._in_force.version)
        if version != self._in_force.version:
            journal = PolicyJournal(self._checkpoint, self._uid)
            self._in_force = journal.versions[version - 1]

    def _show(self) -> None:
        if not self._reports:
            return  # nothing but empty batches so far
        now = self.figures
        self._metrics.figures.update(now)
        reached_ms = max(max(r.time_ms, r.highest_ms) for r in self._reports.values())
        self._growth.append(GrowthPoint.of(now, reached_ms))
        self._metrics.outlooks.note(now, reached_ms)


def _plain(report: Any) -> dict[str, int]:
    return report if isinstance(report, dict) else report.asDict()

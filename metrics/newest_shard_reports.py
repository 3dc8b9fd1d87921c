"""The newest report of each shard of an operator of a query, and their sum."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from idlestate.backends.checkpoint.operator_layout import OperatorLayout, read_layout
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import reached_watermark_ms, read_batch_times
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_report import OBSERVATION, ShardReport, report_of
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.shard_totals import operator_statistics
from idlestate.retention.policy import Policy
from idlestate.retention.policy_version import PolicyVersion


class NewestShardReports:
    """The reports of one operator; empty at first.

    Reports are absolute, so that the next one makes up for a lost one.

    Args:
        uid: the operator.
        policy: the policy in force before the first batch.
        checkpoint: the query's.
    """

    def __init__(self, uid: str, policy: Policy, checkpoint: Folder) -> None:
        self._uid = uid
        self._checkpoint = checkpoint
        self._in_force = PolicyVersion(1, 0, policy)
        self.input_names: Sequence[str] = ()
        """The names of two inputs; empty for an operator with one input."""
        self._reports: dict[int, ShardReport] = {}
        self._reached_ms = 0
        self._begun_with = -1
        """The batch that was taken over: reports of earlier batches are outdated."""

    @property
    def figures(self) -> OperatorStatistics:
        """The sum of the reports."""
        every = list(self._reports.values())
        now = operator_statistics(
            self._uid,
            self._in_force.policy,
            every,
            batch_id=max((each.batch_id for each in every), default=-1),
            batch_time_ms=max((each.batch_time_ms for each in every), default=0),
            policy_version=max((each.policy_version for each in every), default=1),
            reached_ms=self._reached_ms,
            input_names=self.input_names,
        )
        if self._reports and self._layout.backend != "spark":
            return replace(now, next_end_ms=None)  # a sidecar sweeps between batches
        return now

    @property
    def is_known(self) -> bool:
        """Whether every shard has reported, so that the sum is complete."""
        return bool(self._reports) and len(self._reports) == len(self._layout.shards)

    @property
    def progress_ms(self) -> int:
        """The time reached: the highest event time, or in processing time the time of the batch."""
        every = (max(each.time_ms, each.highest_ms) for each in self._reports.values())
        return max(every, default=0)

    def begin(self, records: Iterable[ShardRecord], batch_id: int) -> None:
        """Take over all shards of a checkpoint after a committed batch."""
        in_force = PolicyJournal(self._checkpoint, self._uid).for_batch(batch_id)
        times = read_batch_times(self._checkpoint, batch_id)
        self.begin_with((report_of(each, in_force, times) for each in records), batch_id)

    def begin_with(self, reports: Iterable[ShardReport], batch_id: int) -> None:
        """Take over the reports of all shards after a committed batch."""
        self._in_force = PolicyJournal(self._checkpoint, self._uid).for_batch(batch_id)
        self._reports = {report.shard: report for report in reports}
        self._begun_with = batch_id
        self._follow_time(batch_id)

    def replay_after(self, batch_id: int) -> None:
        """Accept reports of later batches again, because these run again."""
        self._begun_with = min(self._begun_with, batch_id)

    def clear(self) -> None:
        """Forget everything, because the checkpoint is a new one."""
        self._reports.clear()
        self._reached_ms, self._begun_with = 0, -1

    def take(self, batch_id: int, reports: Iterable[ShardReport]) -> None:
        """Take the reports of a batch from Spark's progress."""
        if batch_id <= self._begun_with:
            return
        self._reports |= {each.shard: each for each in reports}
        self._follow_policy()
        self._follow_time(batch_id)

    @cached_property
    def _layout(self) -> OperatorLayout:
        return read_layout(self._checkpoint, self._uid)

    def _follow_policy(self) -> None:
        """Use the policy of the newest reports."""
        known = [report.policy_version for report in self._reports.values()]
        version = max(known, default=self._in_force.version)
        if version != self._in_force.version:
            journal = PolicyJournal(self._checkpoint, self._uid)
            self._in_force = journal.versions[version - 1]

    def _follow_time(self, batch_id: int) -> None:
        """Use the watermark of the next batch, under which keys may be overdue."""
        if self._checkpoint.exists(f"commits/{batch_id}"):
            self._reached_ms = reached_watermark_ms(self._checkpoint, batch_id)


def reports_in(progress: Mapping[str, Any], uid: str) -> list[ShardReport] | None:
    """The reports of an operator in the progress of a batch; None if the batch has none."""
    observed = progress.get("observedMetrics", {}).get(f"{OBSERVATION}{uid}")
    return None if observed is None else [*map(ShardReport.from_json, observed["reports"])]

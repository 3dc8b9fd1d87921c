"""The metrics of a Spark session: of its operators, and of every stateful query.

Spark's progress contains the reports of shards and Spark's own figures of its state. The listener
puts it into a queue, and a thread of this process reads it, so that no batch waits.
"""

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, Full, Queue
from typing import Any, Final

from pyspark.sql import SparkSession

from idlestate.backends.checkpoint.operator_layout import layout_path, read_layout
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import newest_batch
from idlestate.errors import IdlestateError
from idlestate.metrics import families
from idlestate.metrics.driver_metrics import DriverMetrics
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.history import HistoryFile
from idlestate.metrics.newest_shard_reports import NewestShardReports, reports_in
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.spark_metrics import SparkMetrics
from idlestate.pipeline.checkpoint.recorded_shards import recorded_shards
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.query_start_listener import started_query
from idlestate.pipeline.sidecar_attachment import link_of, reports_of
from idlestate.pipeline.spark.progress_as_json import ProgressListener
from idlestate.retention.budget import Budget, no_budget
from idlestate.retention.policy import Policy
from idlestate.sidecar.client.private_sidecar_metrics import PrivateSidecarMetrics
from idlestate.timers.clock import SystemClock

_MOST_EVENTS: Final = 10_000
_LOOK_S: Final = 0.5
_LOOKS: Final = 20
_CLOSE_S: Final = 5.0
_log = logging.getLogger("idlestate")


@dataclass(frozen=True, slots=True)
class ObservedBatch:
    """A finished batch of an operator: its id, its seconds, the operator's figures after it, and
    the time that it reached.
    """

    batch_id: int
    seconds: float
    figures: OperatorStatistics
    progress_ms: int


class SessionMetrics:
    """Exports the metrics of one session.

    Args:
        exporter: exports them.
        budget_for: returns the budget of an operator by its uid; default: no budgets.

    Attributes:
        driver: the figures of the operators.
    """

    def __init__(self, exporter: Exporter, budget_for: Callable[[str], Budget] = no_budget) -> None:
        self._sidecars = PrivateSidecarMetrics(
            exporter, SystemClock()
        )  # first: it takes precedence
        self._histories: dict[str, HistoryFile] = {}
        self.driver = DriverMetrics(exporter, budget_for, self._histories.get)
        self._spark_metrics = SparkMetrics(exporter)
        self._events: Queue[tuple[str, str]] = Queue(_MOST_EVENTS)
        self._operators: dict[str, tuple[str, NewestShardReports]] = {}
        self._followers: dict[str, Callable[[ObservedBatch], None]] = {}
        self._starting: dict[str, int] = {}
        """Runs of queries whose operators are still unknown, and the number of remaining attempts
        to find them.
        """
        self._ended: set[str] = set()
        self._has_ended = threading.Condition()
        self._spark: SparkSession | None = None
        self._listener: ProgressListener | None = None
        self._thread = threading.Thread(target=self._run, name="idlestate-progress", daemon=True)

    def at(self, now_ms: int) -> list[OperatorStatistics]:
        """The figures of all operators for a page: `driver.at`, and the next end of a life from the
        driver's sidecars.
        """
        every = self.driver.at(now_ms)
        if all(each.next_end_ms is not None for each in every):
            return every
        ends_ms = self._sidecars.next_ends_ms()
        return [
            replace(each, next_end_ms=ends_ms.get(each.operator))
            if each.next_end_ms is None
            else each
            for each in every
        ]

    def attach(self, spark: SparkSession) -> None:
        """Listen to the queries of a session, including running ones; once."""
        self._spark = spark
        self._listener = ProgressListener(spark, self._put)
        self._starting |= {str(query.runId): _LOOKS for query in spark.streams.active}
        spark.streams.addListener(self._listener)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        if self._spark is not None and self._listener is not None:
            self._spark.streams.removeListener(self._listener)
            self._put("close", "")
            self._thread.join(_CLOSE_S)

    def operator(self, uid: str, policy: Policy, checkpoint: Folder) -> NewestShardReports:
        """The reports of an operator of a checkpoint.

        Args:
            uid: the operator.
            policy: the policy in force before the first batch.
            checkpoint: the query's checkpoint.
        """
        place, reports = self._operators.get(uid, ("", None))
        if reports is None or place != _place(checkpoint):
            reports = NewestShardReports(uid, policy, checkpoint)
            self._operators[uid] = _place(checkpoint), reports
            self._histories[uid] = HistoryFile(checkpoint, f"idlestate/{uid}/history.npy")
        return reports

    def _of(self, spec: OperatorSpec, checkpoint: Folder) -> NewestShardReports:
        reports = self.operator(spec.uid, spec.policy, checkpoint)
        reports.input_names = tuple(spec.terms)
        return reports

    def show(self, reports: NewestShardReports) -> None:
        """Export the current reports of an operator."""
        figures = reports.figures
        self.driver.show(figures)
        if reports.is_known:
            self.driver.outlooks.note(figures, reports.progress_ms)

    def follow(self, uid: str, take: Callable[[ObservedBatch], None]) -> None:
        """Pass on each reported batch of an operator, in the thread of this object."""
        self._followers[uid] = take

    def wait_for_end(self, run_id: str, timeout_s: float) -> bool:
        """Wait until all reports of a query's run are exported; return whether that was in time."""
        with self._has_ended:
            return self._has_ended.wait_for(lambda: run_id in self._ended, timeout_s)

    # ---- the listener's thread

    def _put(self, kind: str, text: str) -> None:
        try:
            self._events.put_nowait((kind, text))
        except Full:
            self.driver.dropped += 1

    # ---- the thread of this object

    def _run(self) -> None:
        while True:
            try:
                kind, text = self._events.get(timeout=_LOOK_S if self._starting else None)
            except Empty:
                kind, text = "", ""
            if kind == "close":
                return
            try:
                self.handle(kind, text)
            except Exception as error:  # noqa: BLE001 - other queries' metrics continue
                _log.warning("metrics of a query were not updated: %s", error)

    def handle(self, kind: str, text: str) -> None:
        """Process an event of the listener."""
        if kind == "started":
            self._starting[text] = _LOOKS
        for run_id, looks in list(self._starting.items()):
            found = self._find(run_id)
            if found is None and looks:
                self._starting[run_id] = looks - 1
                continue
            del self._starting[run_id]
            if found is not None:
                self._begin(*found)
        if kind == "progress":
            self._take(json.loads(text))
        elif kind == "ended":
            self._starting.pop(text, None)
            with self._has_ended:
                self._ended.add(text)
                self._has_ended.notify_all()

    def _find(self, run_id: str) -> tuple[Folder, list[OperatorSpec]] | None:
        assert self._spark is not None
        return started_query(self._spark, run_id)

    def _begin(self, checkpoint: Folder, specs: list[OperatorSpec]) -> None:
        """Export the operators of a started query with the state of its checkpoint."""
        for spec in specs:
            reports = self._of(spec, checkpoint)
            try:
                batch_id = newest_batch(checkpoint, "commits")
                if batch_id is None:
                    reports.clear()
                elif reports.is_known and batch_id <= reports.figures.batch_id:
                    reports.replay_after(batch_id)
                elif checkpoint.exists(layout_path(spec.uid)):
                    _take_over(reports, checkpoint, spec, batch_id)
            except (IdlestateError, OSError) as error:
                _log.warning("operator %s has no metrics before a batch: %s", spec.uid, error)
                continue
            if batch_id is None or reports.is_known:
                self.show(reports)

    def _take(self, progress: dict[str, Any]) -> None:
        checkpoint, specs = self._find(progress["runId"]) or (None, [])
        keeps_state = any(spec.backend == "spark" for spec in specs)
        self._spark_metrics.take(progress, has_ours=keeps_state)
        for spec in specs:
            assert checkpoint is not None
            observed = reports_in(progress, spec.uid)
            if observed is not None:
                seconds = progress["durationMs"]["triggerExecution"] / 1000
                reports = self._of(spec, checkpoint)
                reports.take(progress["batchId"], observed)
                self._show_batch(spec.uid, progress["batchId"], seconds, reports)

    def _show_batch(
        self, uid: str, batch_id: int, seconds: float, reports: NewestShardReports
    ) -> None:
        self.driver.durations.observe(families.BATCH_DURATION, uid, seconds)
        if reports.is_known:
            self.show(reports)
        if uid in self._followers:
            batch = ObservedBatch(batch_id, seconds, reports.figures, reports.progress_ms)
            self._followers[uid](batch)


def _place(checkpoint: Folder) -> str:
    """The place of a checkpoint, independent of how its path is written."""
    path = checkpoint.path("")
    return str(Path(path).resolve()) if checkpoint.is_local else path


def _take_over(
    reports: NewestShardReports, checkpoint: Folder, spec: OperatorSpec, batch_id: int
) -> None:
    """Load an operator's reports after a committed batch, if that needs no Spark job."""
    if spec.backend == "spark":
        layout = read_layout(checkpoint, spec.uid)
        records = recorded_shards(checkpoint, spec.uid, layout, batch_id)
        if records is not None:
            reports.begin(records, batch_id)
        return
    link = (
        None if reports.is_known else link_of(checkpoint, spec.uid, spec.sidecar, runs_query=True)
    )
    if link is not None:
        reports.begin_with(reports_of(checkpoint, link, batch_id), batch_id)

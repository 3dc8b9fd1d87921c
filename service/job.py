"""The main job: one pipeline of a configuration file as a running Spark query."""

import contextlib
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from idlestate.backends.checkpoint.checkpoint_lock import held
from idlestate.backends.checkpoint.operator_layout import layout_path
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import newest_batch
from idlestate.backends.shards.definition_change import Takeover
from idlestate.config.loading import Config
from idlestate.config.path_conflicts import Place
from idlestate.config.pipeline_settings import Pipeline, SourceSection
from idlestate.config.urls import is_url
from idlestate.errors import RefusedError
from idlestate.functions.function_class import load_co_function, load_function
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.exposition import MetricsServer
from idlestate.metrics.families import OF_RELOADS
from idlestate.metrics.growth_log import GrowthLog
from idlestate.metrics.reload_counts import ReloadCounts
from idlestate.pipeline.checkpoint.state_store_shards import read_shards
from idlestate.pipeline.input_files import check_there, elsewhere, read_events
from idlestate.pipeline.query_start import check_owner, takeover
from idlestate.pipeline.query_start_listener import declared
from idlestate.pipeline.run_to_end import runs_to_end
from idlestate.pipeline.session_metrics import SessionMetrics
from idlestate.pipeline.sidecar_attachment import link_of, reports_of
from idlestate.pipeline.sinks.folder_sinks import FolderSinks
from idlestate.pipeline.spark.worker_restarts import Restarts
from idlestate.service.earlier_runs import EarlierRuns
from idlestate.service.interrupts import Interrupts
from idlestate.service.monitor import Batch, Monitor
from idlestate.service.pipeline_changelog import pipeline_changelog
from idlestate.service.reload_signal import HangUps
from idlestate.service.reloads import Reloads
from idlestate.service.run_page import run_page
from idlestate.service.spark_errors import plain_error
from idlestate.service.spark_session import start_spark
from idlestate.sidecar.protocol.connection import Address
from idlestate.timers.clock import SystemClock

_log = logging.getLogger("idlestate")


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a run: figures over all runs of the query, and those of this run."""

    monitor: Monitor
    growth: GrowthLog
    rows: int
    seconds: float
    life_seconds: float
    """Seconds that batches took in all runs of the query, as far as they were recorded."""


class Job:
    """A pipeline, ready to run.

    Args:
        config: the loaded file.
        uid: the pipeline in the file.
        source: another path to read instead of the file's.
        sidecar: the address of its sidecar; None if it starts its own, or needs none.
        afresh: whether a run first removes what earlier runs left.
    """

    def __init__(
        self,
        config: Config,
        uid: str,
        source: str | None = None,
        sidecar: Address | None = None,
        *,
        afresh: bool = False,
    ) -> None:
        self._config = config
        self._sidecar = sidecar
        self.uid = uid
        self.pipeline: Pipeline = config.pipelines[uid]
        self.policy = config.policy_for(uid)
        self._source: SourceSection = self.pipeline.source
        self._second = self.pipeline.second.source if self.pipeline.second else None
        if source is not None:
            both = self._second == self._source
            self._source = elsewhere(self._source, source)
            self._second = self._source if both else self._second
        self.checkpoint = Path(self.pipeline.checkpoint).absolute()
        self._folder = Folder(str(self.checkpoint))
        sinks = self.pipeline.sinks
        self._sinks = FolderSinks(
            _absolute(sinks.results),
            _absolute(sinks.expired),
            _absolute(sinks.rejects),
            format=sinks.format,
        )
        self._earlier = EarlierRuns(self.checkpoint, uid, self._sinks, sidecar)
        self.afresh = afresh
        self.has_removed = False
        """Whether this run has removed what earlier runs left."""
        self.log = self.checkpoint.parent / f"{self.checkpoint.name}.spark.log"

    @property
    def growth_path(self) -> Path:
        """The growth log, in the checkpoint: both are removed together."""
        return self.checkpoint / "idlestate" / self.uid / "growth.jsonl"

    @property
    def has_committed(self) -> bool:
        """Whether the checkpoint holds a batch to continue from."""
        return newest_batch(self._folder, "commits") is not None

    def run(
        self,
        on_start: Callable[[str], None],
        on_batch: Callable[[Batch], None],
        tell: Callable[[str], None] = _log.info,
    ) -> Finished:
        """Run the query until its input ends (or it is interrupted).

        Args:
            on_start: called with the URL of the metrics.
            on_batch: called with each finished batch.
            tell: called with messages about reloads and restarts of the query.

        Raises:
            RefusedError, DamagedStateError: what is wrong, where, and what to change.
            KeyboardInterrupt: Ctrl-C or SIGTERM.
        """
        self._check_places()
        clock = SystemClock()
        exporter = Exporter(clock)
        budgets = {self.uid: self._config.budget_for(self.uid)}
        metrics = SessionMetrics(exporter, budgets.__getitem__)
        counts = ReloadCounts()
        exporter.add(OF_RELOADS, counts.samples)
        growth = GrowthLog(self.growth_path, afresh=self.afresh)
        place = self.pipeline.metrics
        page = run_page(metrics.at, growth, clock, self.pipeline, self._sidecar)
        server = MetricsServer(exporter, place.port, place.address, page=page)
        with server, HangUps() as hang_ups:
            on_start(server.url)
            watched = (self._config, self.uid, self._folder)
            reloads = Reloads(*watched, counts, clock, hang_ups, budgets, tell, self._sidecar)
            spark = start_spark(self.pipeline.state_partitions, self.log)
            try:
                metrics.attach(spark)
                with Interrupts() as interrupts, held(self._folder):
                    restarts = Restarts(tell)
                    return self._run(
                        spark, metrics, growth, clock, on_batch, interrupts, reloads, restarts
                    )
            except (PySparkException, Py4JError) as error:
                raise plain_error(error, self.log) from error
            finally:
                with contextlib.suppress(Exception):
                    metrics.close()
                with contextlib.suppress(Exception):
                    spark.stop()

    def _check_places(self) -> None:
        """Refuse invalid places before Spark is started, which takes seconds."""
        if self.checkpoint.is_file():
            raise RefusedError(f"checkpoint {self.checkpoint} is a file; set a folder")
        self._check_source_apart()
        if self.afresh:
            self._earlier.check()
        else:
            check_owner(self._folder, self.uid)
        check_there(self._source)
        if self._second is not None:
            check_there(self._second)
        if self.pipeline.function is not None:
            load = load_co_function if self.pipeline.kind == "co_process" else load_function
            load(self.uid, self.pipeline.function)

    def _check_source_apart(self) -> None:
        """Refuse a source that overlaps what the pipeline writes; in the file, this was checked."""
        pipeline, sinks = self.pipeline, self.pipeline.sinks
        written = (sinks.results, sinks.expired, sinks.rejects, pipeline.checkpoint)
        places = [Place((), path) for path in written if path is not None]
        if pipeline.runs is not None:
            places.append(Place((), pipeline.runs, is_shared=True))
        for source in filter(None, (self._source, self._second)):
            for place in places:
                if place.overlaps(Place((), source.path)):
                    raise RefusedError(
                        f"source {source.path} and {place.text}, which the pipeline writes, "
                        "overlap; pass a separate folder, or the query would read its own output"
                    )

    def _run(
        self,
        spark: SparkSession,
        metrics: SessionMetrics,
        growth: GrowthLog,
        clock: SystemClock,
        on_batch: Callable[[Batch], None],
        interrupts: Interrupts,
        reloads: Reloads,
        restarts: Restarts,
    ) -> Finished:
        changes = self._changes(spark)
        if self.afresh:
            self._earlier.remove(spark)
            self.has_removed = True
        self._sinks.claim(spark, self._query_id())
        self._claim_source()
        planned = newest_batch(self._folder, "offsets")
        if planned is not None:
            self._sinks.forget_after(spark, planned)
            growth.forget_after(planned)
        monitor = Monitor(self.uid, self.policy, self._folder, metrics, growth)
        self._take_state(spark, monitor)
        writer = (
            changes.writeStream.queryName(self.uid)
            .outputMode("append")
            .option("checkpointLocation", str(self.checkpoint))
            .foreachBatch(self._sinks)
        )
        trigger_ms = self.pipeline.trigger_ms
        if trigger_ms is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{trigger_ms} milliseconds")

        def look() -> None:
            interrupts.check()
            reloads.poll()

        rows_before, life_seconds = monitor.figures.input_rows, self._life_seconds()
        began = clock.monotonic_s()
        for query in runs_to_end(writer.start):
            try:
                for batch in monitor.follow(query, look):
                    life_seconds += batch.seconds
                    self._folder.replace(self._name("time.json"), json.dumps(life_seconds).encode())
                    on_batch(batch)
                    restarts.note_batch()
            except StreamingQueryException as error:
                if not restarts.allows(error):
                    raise
                continue
            finally:
                query.stop()
            if trigger_ms is not None:
                break
        self._take_state(spark, monitor)
        # From the state: the progress of a batch may be lost, or come too late.
        rows = monitor.figures.input_rows - rows_before
        return Finished(monitor, growth, rows, clock.monotonic_s() - began, life_seconds)

    def takeover(self, spark: SparkSession, checkpoint: Folder) -> Takeover:
        """What would happen to the state of a checkpoint if the pipeline ran on it.

        Raises:
            RefusedError: the pipeline does not fit its input, or the checkpoint is not one.
        """
        self._changes(spark)
        return takeover(checkpoint, declared(spark, self.uid))

    def _changes(self, spark: SparkSession) -> DataFrame:
        events = read_events(spark, self._source, self.pipeline.event_time)
        second = None
        if self.pipeline.second is not None and self._second is not None:
            second = read_events(spark, self._second, self.pipeline.second.event_time)
        rejects = self._sinks.rejects is not None
        return pipeline_changelog(
            events,
            second,
            self.uid,
            self.pipeline,
            self._config.queries.get(self.uid),
            self.policy,
            self._config.right_policy_for(self.uid),
            self._sidecar,
            rejects=rejects,
        )

    def _take_state(self, spark: SparkSession, monitor: Monitor) -> None:
        newest = newest_batch(self._folder, "commits")
        if newest is None or not self._folder.exists(layout_path(self.uid)):
            return
        link = link_of(self._folder, self.uid, self._sidecar, runs_query=True)
        if link is not None:
            monitor.begin_with_reports(reports_of(self._folder, link, newest), newest)
        else:
            states = read_shards(spark, str(self.checkpoint), self.uid, newest)
            monitor.begin_with(states, newest)

    def _query_id(self) -> str | None:
        if not self._folder.exists("metadata"):
            return None
        return str(json.loads(self._folder.read("metadata"))["id"])

    def _life_seconds(self) -> float:
        name = self._name("time.json")
        seconds: float = json.loads(self._folder.read(name)) if self._folder.exists(name) else 0.0
        return seconds

    def _name(self, file: str) -> str:
        """The name of a file of this operator in the checkpoint."""
        return f"idlestate/{self.uid}/{file}"

    def _claim_source(self) -> None:
        """Refuse a checkpoint that has already read another source."""
        name = self._name("source.json")
        read = {"path": _absolute(self._source.path)}
        if self._second is not None:
            name_of_second = "versions" if self.pipeline.versions else "right"
            read[name_of_second] = _absolute(self._second.path)
        if newest_batch(self._folder, "offsets") is None:
            self._folder.replace(name, json.dumps(read).encode())
            return
        if not self._folder.exists(name):
            return
        before = json.loads(self._folder.read(name))
        other = next((each for each in read if before.get(each) != read[each]), None)
        if other is not None:
            raise RefusedError(
                f"checkpoint {self.checkpoint} has read {before.get(other)}, not {read[other]}: "
                "its state would mix both; start from scratch with --afresh, or use another "
                "checkpoint and sinks"
            )


def _absolute(place: str | None) -> Any:
    """A local path as an absolute one, which does not depend on the working directory."""
    if place is None or is_url(place):
        return place
    return os.path.abspath(place)  # noqa: PTH100 - keeps patterns with * as they are

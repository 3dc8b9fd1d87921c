"""The listener that prepares the checkpoint of a starting query for its operators.

`retain` registers each operator here. When a query starts, Spark calls the listener in the query's
own thread before the first batch. The listener finds the query's operators in its plan by the names
of their packing functions, prepares or checks the checkpoint, and sets its path as a local property
that every task of the query reads. A refused query ends before it plans a batch, and the call that
started it raises the error: Spark keeps its text only, the listener the error itself.
"""

import json
import logging
import re
from contextlib import suppress
from threading import Lock
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from idlestate.backends.checkpoint.checkpoint_lock import hold, release
from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.files.folder import Folder
from idlestate.errors import IdlestateError, RefusedError, StoreError
from idlestate.pipeline.idle_cores import warn_of_idle_cores
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.pack import PACKER_NAME
from idlestate.pipeline.query_start import prepare_checkpoint
from idlestate.pipeline.sidecar_attachment import attach
from idlestate.pipeline.sidecar_link import SIDECARS_PROPERTY
from idlestate.pipeline.sinks.folder_sinks import FolderSinks
from idlestate.pipeline.sinks.spark_file_sink import put_file_sink_right
from idlestate.pipeline.sinks.upstream_rollback import refuse_undone_input
from idlestate.pipeline.spark.local_properties import CHECKPOINT_PROPERTY
from idlestate.pipeline.spark.python_worker_errors import worker_problem
from idlestate.pipeline.spark.spark_query import (
    NO_CHECKPOINT,
    check_sinks,
    check_starts,
    checkpoint_of,
    end_query,
    execution_of,
    is_checkpoint_temporary,
    java_listener,
    leave_checksums_to_hadoop,
    partitions_and_batches_of,
    plan_of,
    session_id,
)
from idlestate.timers.clock import SystemClock

_log = logging.getLogger("idlestate")


def register(spark: SparkSession, spec: OperatorSpec) -> None:
    """Register an operator, so that queries with it find their checkpoint."""
    key = session_id(spark)
    with _registering:
        if key not in _listeners:
            listener = _StartListener(spark)
            spark.streams.addListener(listener)
            check_starts(_check_started)
            check_sinks(FolderSinks, FolderSinks.check_writable)
            _listeners[key] = listener
        _listeners[key].operators[spec.token] = spec


def operators_in(spark: SparkSession, plan: str) -> list[OperatorSpec]:
    """The operators of a session in the text of a plan: one for each occurrence, as a DataFrame
    that is used twice is computed twice.
    """
    listener = _listeners.get(session_id(spark))
    known = {} if listener is None else listener.operators
    found = re.findall(rf"{PACKER_NAME}(\w+)\(", plan)
    return [known[token] for token in found if token in known]


def declared(spark: SparkSession, uid: str) -> OperatorSpec:
    """The operator of the last call of `retain` with this uid in a session."""
    specs = _listeners[session_id(spark)].operators.values()
    return [spec for spec in specs if spec.uid == uid][-1]


def _check_started(query: StreamingQuery) -> None:
    for listener in _listeners.values():
        refusal = listener.refusals.pop(str(query.runId), None)
        if refusal is not None:
            with suppress(StreamingQueryException):  # the same error; now it can be started again
                query.awaitTermination()
            raise refusal


def operators_of(query: StreamingQuery) -> tuple[Folder, list[OperatorSpec]]:
    """The checkpoint of a query that was started, and its operators.

    Raises:
        RefusedError: it has no operators.
    """
    for listener in _listeners.values():
        if str(query.runId) in listener.started:
            return listener.started[str(query.runId)]
    raise RefusedError(
        f"query {query.name or query.id} does not use retain(): wait for it with awaitTermination()"
    )


def started_query(spark: SparkSession, run_id: str) -> tuple[Folder, list[OperatorSpec]] | None:
    """The checkpoint and the operators of a run of a query in a session; None if it has none."""
    listener = _listeners.get(session_id(spark))
    return None if listener is None else listener.started.get(run_id)


class _StartListener(StreamingQueryListener):
    """Prepares checkpoints of starting queries."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.operators: dict[str, OperatorSpec] = {}
        self.refusals: dict[str, IdlestateError] = {}
        """The error of each run of a query that was not started, by its id."""
        self.started: dict[str, tuple[Folder, list[OperatorSpec]]] = {}
        """Checkpoint and operators of each run of a query, by its id."""
        self._owners: dict[str, str] = {}
        """The query of each operator in a sidecar, by token."""

    @property
    def _jlistener(self) -> Any:  # from which Spark takes its adapter
        return java_listener(self._spark, _StartAdapter(self))

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        try:
            execution = execution_of(self._spark, str(event.id))
            specs = operators_in(self._spark, plan_of(execution))
        except RefusedError as error:  # it may be a query without an operator
            _log.error("%s", error)
            return
        if not specs:
            return
        refusal: IdlestateError | None = None
        links: dict[str, str] = {}
        root = checkpoint_of(execution)
        try:
            self.started[str(event.runId)] = Folder(root), specs
            hold(Folder(root), str(event.runId))
            _prepare(execution, Folder(root), specs, self._spark.sparkContext.defaultParallelism)
            refuse_undone_input(self._spark, Folder(root))
            put_file_sink_right(self._spark, execution, Folder(root), str(event.id))
            leave_checksums_to_hadoop(execution, Folder(root))
            links = self._attach(event, Folder(root), specs)
        except IdlestateError as error:
            refusal = error
        except Exception as error:  # noqa: BLE001 - raised again by the call that starts the query
            kind = StoreError if isinstance(error, OSError) else RefusedError
            refusal = kind(f"checkpoint {root} cannot be prepared: {error}")
        if refusal is not None:
            self.refusals[str(event.runId)] = refusal
            end_query(self._spark, execution, str(refusal))
            return
        context = self._spark.sparkContext
        context.setLocalProperty(CHECKPOINT_PROPERTY, root)
        context.setLocalProperty(SIDECARS_PROPERTY, json.dumps(links))

    def _attach(self, event: Any, checkpoint: Folder, specs: list[OperatorSpec]) -> dict[str, str]:
        """Links to the sidecars of the operators that have one."""
        is_local = str(self._spark.sparkContext.master).startswith("local")
        query_id, run_id = str(event.id), str(event.runId)
        links = {}
        for spec in specs:
            if spec.backend == "spark":
                continue
            if self._is_others(spec, query_id):
                raise RefusedError(
                    f"operator {spec.uid!r}: another query runs on the result of this retain(), "
                    "and with its state in a sidecar one query alone can: call retain() for each "
                    "query, or write several outputs in foreachBatch or with FolderSinks"
                )
            self._owners[spec.token] = query_id
            link = attach(spec, checkpoint, query_id, run_id, is_local=is_local)
            links[spec.uid] = link.to_text()
        return links

    def _is_others(self, spec: OperatorSpec, query_id: str) -> bool:
        """Whether another query runs on this operator, and reads the file about its sidecar."""
        owner = self._owners.get(spec.token, query_id)
        active = self._spark.streams.active if owner != query_id else []
        return any(str(each.id) == owner for each in active)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Progress is read where a query is run."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Release the checkpoint, and explain an error that the query did not cause."""
        run_id = str(event.runId)
        if run_id not in self.started:
            return
        checkpoint, specs = self.started[run_id]
        release(checkpoint, run_id)
        problem = worker_problem(event.exception or "")
        if problem is not None:
            _log.error(
                "query %s (%s) stopped: %s; nothing is lost: restarted, it continues from its last "
                "committed batch",
                event.id,
                ", ".join(f"operator {spec.uid!r}" for spec in specs),
                problem,
            )


class _StartAdapter(JStreamingQueryListener):
    """Spark's adapter without progress, whose conversion costs many JVM calls per batch."""

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        """Progress is read where a query is run."""


def _prepare(execution: Any, checkpoint: Folder, specs: list[OperatorSpec], cores: int) -> None:
    if is_checkpoint_temporary(execution):
        raise RefusedError(f"operator {specs[0].uid!r}: {NO_CHECKPOINT}")
    uids = [spec.uid for spec in specs]
    twice = sorted({uid for uid in uids if uids.count(uid) > 1})
    if twice:
        raise RefusedError(
            f"uid {twice[0]!r} is used {uids.count(twice[0])} times in one query; give each "
            "retain() its own uid, and use its result once (to split it, use FolderSinks or "
            "foreachBatch)"
        )
    partitions, retain_batches = partitions_and_batches_of(execution)
    for spec in specs:
        prepare_checkpoint(
            checkpoint,
            spec,
            partitions=partitions,
            retain_batches=retain_batches,
            now_ms=SystemClock().now_ms(),
        )
        warn_of_idle_cores(spec.uid, read_layout(checkpoint, spec.uid), cores)


_listeners: dict[str, _StartListener] = {}
_registering = Lock()
"""Held while a session gets its listener: threads of a program may each start a query."""

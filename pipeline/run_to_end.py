"""Runs a query on bounded input until all of its output has been written.

Spark closes the last lives in a batch without data, right after the last data. A crash in between
loses that batch: a restart finds nothing to read and runs no batch. In this case the commit of the
last data batch is removed, so that the batch runs again from its log, and the final sweep follows.
With state in a sidecar, one more start reads the last expire rows.

Operators with `in_order` still have waiting rows then, because the watermark lags the newest row.
For them, one more batch without data is planned, with the highest event time as its watermark. Its
plan is an entry of Spark's own log, so every restart runs it with the same result.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import (
    expired_read,
    forget_entry,
    newest_batch,
    owed_sweep,
    plan_end,
)
from idlestate.backends.shards.shard_statistics import ShardStatistics
from idlestate.pipeline.checkpoint.recorded_shards import read_records
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.query_start_listener import operators_of
from idlestate.pipeline.sidecar_attachment import finish_input, link_of, owes_batch, reports_of
from idlestate.pipeline.spark.argument_type import check_argument
from idlestate.pipeline.spark.worker_restarts import Restarts

_log = logging.getLogger("idlestate")


def run_to_end(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Run a query on bounded input to its end, even if an earlier run of it was killed.

        writer = changes.writeStream.option("checkpointLocation", "job/checkpoint")
        run_to_end(lambda: writer.trigger(availableNow=True).start("job/changes"))

    Args:
        start: starts the query, with `trigger(availableNow=True)`. It is called again if expire
            rows are still missing when the query ends, such as those of a final sweep that a
            crash prevented, and a few times if Spark's Python workers do not start in time.

    Returns:
        The query's last run, which has ended.

    Raises:
        RefusedError: the query does not use `retain`, or does not fit its checkpoint or sink.
        StreamingQueryException: it failed.
    """
    check_argument("start", start, Callable, "a function that starts the query")
    restarts = Restarts(_log.warning)
    for query in runs_to_end(start):
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if not restarts.allows(error):
                raise
    return query


def runs_to_end(start: Callable[[], StreamingQuery]) -> Iterator[StreamingQuery]:
    """The runs of a query for `run_to_end`; the caller waits until each of them has ended. After a
    failed run, the caller continues only if the query shall be started again.
    """
    expired_rows: dict[str, int] = {}
    while True:
        query = start()
        yield query
        if query.exception() is not None:
            continue
        checkpoint, specs = operators_of(query)
        owed = [_owes_rows(checkpoint, spec, expired_rows) for spec in specs]
        if any(owed):
            continue
        ends_ms = [_end_ms(checkpoint, spec, SparkSession.active()) for spec in specs]
        end_ms = max((each for each in ends_ms if each is not None), default=None)
        if end_ms is None:
            return
        plan_end(checkpoint, end_ms)


def _end_ms(checkpoint: Folder, spec: OperatorSpec, spark: SparkSession) -> int | None:
    """The time up to which rows of an operator wait; None if no row waits."""
    committed = newest_batch(checkpoint, "commits")
    if not spec.table.in_order or committed is None:
        return None
    link = link_of(checkpoint, spec.uid, spec.sidecar, runs_query=True)
    figures: Sequence[ShardStatistics]
    if link is not None:
        figures = reports_of(checkpoint, link, committed)
    else:
        layout = read_layout(checkpoint, spec.uid)
        records = read_records(checkpoint, spec.uid, layout, committed, spark)
        figures = [ShardStatistics.of(each, spec.policy) for each in records]
    if not any(each.held_rows for each in figures):
        return None
    return max(each.highest_ms for each in figures)


def _owes_rows(checkpoint: Folder, spec: OperatorSpec, expired_rows: dict[str, int]) -> bool:
    """Whether the input has ended, and an operator still owes rows that another start would emit.

    Args:
        checkpoint: the checkpoint of the query, which has ended.
        spec: the operator.
        expired_rows: the total number of expired records, for each operator whose input has ended
            in its sidecar.
    """
    link = link_of(checkpoint, spec.uid, spec.sidecar, runs_query=True)
    if link is not None and spec.table.ends_by_batches:
        return owes_batch(checkpoint, link)
    if link is not None:
        if spec.uid not in expired_rows:
            expired_rows[spec.uid] = finish_input(checkpoint, link, sweep=spec.is_event_time)
        return expired_read(checkpoint) < expired_rows[spec.uid]
    owed = owed_sweep(checkpoint) if spec.is_event_time else None
    if owed is None:
        return False
    forget_entry(checkpoint, "commits", owed)
    return True

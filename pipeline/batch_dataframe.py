"""`retain` on a batch DataFrame: one batch and the final sweep; keeps no state."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from idlestate.backends.checkpoint.shard_partitions import SHARDS_PER_PARTITION
from idlestate.backends.files.spark_logs import NO_WATERMARK_MS
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.late_and_rejected_rows import RejectCode, failed_as_json
from idlestate.backends.shards.row_counts import of_texts
from idlestate.backends.shards.shard_batch import advance
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.errors import IdlestateError
from idlestate.pipeline.changelog_unpacker import changelog_schema, unpacker
from idlestate.pipeline.operator_spec import TIME, OperatorSpec
from idlestate.pipeline.pack import CELL_TYPE, packer
from idlestate.pipeline.spark.task_errors import marked as as_marked
from idlestate.pipeline.task_batch import TaskBatch
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.policy_version import PolicyVersion
from idlestate.timers.clock import SystemClock

_CELLS = pa.schema([("cell", pa.binary()), ("rejected", pa.string())])
_OUTPUT = StructType([StructField("cell", BinaryType()), StructField("rejected", StringType())])


def retain_batch(inputs: Sequence[tuple[DataFrame, OperatorSpec]], spec: OperatorSpec) -> DataFrame:
    """The changelog of the whole input as one batch; arguments as in `changelog`.

    Its time is the time of this call. There is no earlier watermark, so no row is late. Lives that
    are due at the highest event time minus the delay are closed. With `in_order`, lives due at the
    highest event time are closed, because a stream's time ends there; rows of a join have found all
    their partners. A separate pass over the input finds the highest event time.
    """
    partitions = int(str(inputs[0][0].sparkSession.conf.get("spark.sql.shuffle.partitions")))
    shards = list(range(spec.shards or SHARDS_PER_PARTITION * partitions))
    task = TaskBatch(
        BatchTimes(0, NO_WATERMARK_MS, SystemClock().now_ms()),
        spec.table,
        shards,
        PolicyVersion(1, 0, spec.policy, spec.right_policy),
        0,
        None,
    )
    highest = F.lit(None).cast("long")
    if spec.is_event_time:
        latest_ms = F.lit(task.times.time_ms + spec.max_ahead_ms)
        counts_on = (F.col(TIME) > F.lit(int(max(RejectCode)))) & (F.col(TIME) <= latest_ms)
        highest = F.max(F.when(counts_on, F.col(TIME)))
    times = [marked.select(TIME) for marked, each in inputs if each.is_event_time]
    timed_rows = reduce(DataFrame.union, times) if times else inputs[0][0]
    ends = timed_rows.agg(highest.alias("highest_ms"))
    packed = [marked.mapInArrow(packer(each, lambda: task), CELL_TYPE) for marked, each in inputs]
    cells = reduce(DataFrame.union, packed)
    timed = cells.crossJoin(F.broadcast(ends))

    def run(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(list(parts))
        counts = of_texts(rows.column("counts").drop_null().to_pylist())
        highest_ms = rows.column("highest_ms")[0].as_py()
        behind_ms = 0 if spec.table.in_order else spec.delay_ms + 1
        watermark_ms = NO_WATERMARK_MS if highest_ms is None else highest_ms - behind_ms
        if spec.table.is_of_sides:
            watermark_ms = FOREVER_MS  # no row will ever match any of these
        times = replace(task.times, watermark_ms=watermark_ms)
        try:
            advanced = advance(
                task.table,
                ShardRecord(spec.uid, 0, newest_ms=highest_ms or 0),
                None,
                rows.column("packet").to_pylist(),
                counts,
                times,
                task.in_force,
                spec.operator_step,
            )
        except IdlestateError as error:
            raise as_marked(error, spec.uid) from error
        for cell in advanced.cells:
            yield pa.RecordBatch.from_pydict({"cell": [cell], "rejected": [None]}, _CELLS)
        rejected = rows.column("rejected").drop_null().to_pylist()
        for text in rejected + failed_as_json(advanced.failed, times.batch_id):
            yield pa.RecordBatch.from_pydict({"cell": [None], "rejected": [text]}, _CELLS)

    changed = timed.groupBy("shard").applyInArrow(run, _OUTPUT)
    return changed.mapInArrow(unpacker(spec), changelog_schema(spec))

"""The common ends of every data path: packing rows and unpacking change rows."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate.backends.shards.shard_report import OBSERVATION
from idlestate.pipeline.changelog_unpacker import changelog_schema, unpacker
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.pack import CELL_TYPE, HIGHEST, packer, visits
from idlestate.pipeline.spark.dataframe_plan import observe
from idlestate.pipeline.task_batch import TaskBatch, open_task_batch


def packed(inputs: Sequence[tuple[DataFrame, OperatorSpec]]) -> DataFrame:
    """Marked rows of streams as cells: a packet per task and shard; arguments as in `changelog`."""
    every = [_cells(marked, spec) for marked, spec in inputs]
    spec = inputs[0][1]
    if spec.may_be_idle:
        # Spark's own combination of watermarks would wait for an idle input.
        united = reduce(DataFrame.union, every).withWatermark(HIGHEST, "0 milliseconds")
        return united.drop(HIGHEST)
    if spec.is_event_time and not spec.is_second:
        # One millisecond more: a row is late iff its time <= the watermark, and the row with the
        # highest time is not late. Set on cells, not on rows, because Spark copies each row before
        # and after its operator for it.
        every = [
            cells.withWatermark(HIGHEST, f"{each.delay_ms + 1} milliseconds")
            for cells, (_, each) in zip(every, inputs, strict=True)
        ]
    return reduce(DataFrame.union, [cells.drop(HIGHEST) for cells in every])


def _cells(marked: DataFrame, spec: OperatorSpec) -> DataFrame:
    uid, classes = spec.uid, spec.table.classes
    needs_inputs, is_second = spec.may_be_idle, spec.is_second

    def open_batch() -> TaskBatch:
        return open_task_batch(uid, classes, needs_inputs=needs_inputs, is_second=is_second)

    return marked.mapInArrow(packer(spec, open_batch), CELL_TYPE)


def visited(times: DataFrame, spec: OperatorSpec) -> DataFrame:
    """Cells without rows, one per shard for each row of a stream: a batch without data."""
    uid, classes = spec.uid, spec.table.classes
    made = visits(spec, lambda: open_task_batch(uid, classes))
    return times.mapInArrow(made, CELL_TYPE).drop(HIGHEST)


def unpacked(changed: DataFrame, spec: OperatorSpec) -> DataFrame:
    """The output of the stateful step as the changelog; its reports go into Spark's progress."""
    # Reports are observed before change rows are unpacked: a few rows instead of all.
    reports = F.expr("collect_list(report) AS reports")
    observed = observe(changed, f"{OBSERVATION}{spec.uid}", reports)
    return observed.select("cell", "rejected").mapInArrow(unpacker(spec), changelog_schema(spec))

"""The changelog of an operator whose state is in a sidecar.

Updates are returned in the batch that created them. Expired records are read by number through a
separate source, whose rows are united with the updates: each record exactly once, in a batch after
the one that closed the life. With rows in order, lives end only in batches, including batches
without data that another source triggers, and every row is returned in its batch.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from idlestate.pipeline.changelog_unpacker import changelog_schema
from idlestate.pipeline.expired_source import FORMAT, LINK_FILE, register_source
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.packed_rows import packed, unpacked, visited
from idlestate.pipeline.reached_source import reached_times
from idlestate.pipeline.sidecar_exchange import exchanger
from idlestate.pipeline.step_on_spark_state import OUTPUT_SCHEMA


def sidecar_dataframe(
    inputs: Sequence[tuple[DataFrame, OperatorSpec]], spec: OperatorSpec
) -> DataFrame:
    """The changelog of an operator that a sidecar keeps; arguments as in `changelog`."""
    spark, link_file = inputs[0][0].sparkSession, spec.link_file or ""
    cells = packed(inputs)
    if spec.table.ends_by_batches and spec.is_event_time:
        cells = cells.union(visited(reached_times(spark, link_file), spec))
    # The number is explicit, so that later session settings have no effect.
    moved = cells.repartition(spec.partitions, "shard")
    changes = unpacked(moved.mapInArrow(exchanger(spec), OUTPUT_SCHEMA), spec)
    if spec.table.ends_by_batches:
        return changes
    register_source(spark)
    expired = (
        spark.readStream.format(FORMAT)
        .schema(changelog_schema(spec))
        .option(LINK_FILE, link_file)
        .load()
    )
    return changes.unionByName(expired)

"""The changelog of an operator whose state is in a sidecar.

Updates are returned in the batch that made them. Expired records are read by their numbers, through
a separate source that is united with the updates: each exactly once, in a batch after the one that
closed the life.
"""

from pyspark.sql import DataFrame

from idlestate.pipeline.changelog_unpacker import changelog_schema
from idlestate.pipeline.expired_source import FORMAT, LINK_FILE, register_source
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.packed_rows import packed, unpacked
from idlestate.pipeline.sidecar_exchange import exchanger
from idlestate.pipeline.stateful_step import OUTPUT_SCHEMA


def sidecar_dataframe(marked: DataFrame, spec: OperatorSpec) -> DataFrame:
    """The changelog of an operator that a sidecar keeps."""
    spark = marked.sparkSession
    register_source(spark)
    # With an explicit number, so that later settings of the session do not matter.
    moved = packed(marked, spec).repartition(spec.partitions, "shard")
    updates = unpacked(moved.mapInArrow(exchanger(spec), OUTPUT_SCHEMA), spec)
    expired = (
        spark.readStream.format(FORMAT)
        .schema(changelog_schema(spec))
        .option(LINK_FILE, spec.link_file or "")
        .load()
    )
    return updates.unionByName(expired)

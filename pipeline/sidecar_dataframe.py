"""`retain` with state outside of the query: in a sidecar.

Updates come home with the batch that made them. Expired records leave the sidecar by their numbers
alone, through a source of their own that is joined into the changelog: each exactly once, in a
batch after the one that closed the life.
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
    # By number: whatever the session says later, these are the partitions.
    moved = packed(marked, spec).repartition(spec.partitions, "shard")
    updates = unpacked(moved.mapInArrow(exchanger(spec), OUTPUT_SCHEMA), spec)
    expired = (
        spark.readStream.format(FORMAT)
        .schema(changelog_schema(spec))
        .option(LINK_FILE, spec.link_file or "")
        .load()
    )
    return updates.unionByName(expired)

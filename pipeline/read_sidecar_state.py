"""The open lives of a sidecar's operator as a DataFrame."""

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.pipeline.sidecar_link import SidecarLink
from idlestate.pipeline.spark.spark_types import spark_schema
from idlestate.pipeline.spark.task_errors import marked
from idlestate.sidecar.protocol.errors import SidecarError
from idlestate.sidecar.protocol.retries import CONNECT_TIMEOUT_S


def lives_in_sidecar(spark: SparkSession, link: SidecarLink) -> DataFrame:
    """The lives open after the newest committed batch, a shard per task.

    A task reads its shard in parts, each at its own moment. If the table changes in between, every
    life that stays open is returned once; a life that starts or ends meanwhile may be missing.

    Raises:
        RefusedError: the sidecar has stopped the operator.
        UnavailableError: the sidecar does not answer, or is busy.
    """
    with closing(link.connect(CONNECT_TIMEOUT_S)) as connection:
        connection.call("settle", {"uid": link.uid})
        answer = connection.call("lives", {"uid": link.uid, "shard": 0})
    schema = pa.ipc.open_stream(answer.parts[0]).schema
    shards = spark.range(answer.header["shards"], numPartitions=answer.header["shards"])

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        connection = link.connect()
        try:
            for batch in batches:
                for shard in batch.column(0).to_pylist():
                    since: int | None = LOWEST_HASH
                    while since is not None:
                        header = {"uid": link.uid, "shard": shard, "since": since}
                        found = connection.call("lives", header)
                        yield from pa.ipc.open_stream(found.parts[0])
                        since = found.header["next"]
        except SidecarError as error:
            raise marked(error) from error
        finally:
            connection.close()

    return shards.mapInArrow(run, spark_schema(schema))

"""A Spark source that gives an operator with rows in order batches without data.

When the watermark has advanced, Spark runs a batch without data for its own stateful operators, in
which lives end and waiting rows are released. A sidecar's operator is not one of these. This source
has a row for each reached event time at which such an operator has something to do: the row becomes
an empty packet for every shard (`idlestate.pipeline.pack.visits`). Its offsets are these times, so
a repeated batch visits the shards again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StructType

from idlestate.backends.files.spark_logs import REACHED
from idlestate.pipeline.expired_source import (
    LINK_FILE,
    EndingReader,
    link_of_options,
    told,
)
from idlestate.sidecar.protocol.connection import Connection

FORMAT = "idlestate.reached"
_SCHEMA = f"{REACHED} long"


class ReachedSource(DataSource):
    """The source."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """One column: the time."""
        return _SCHEMA

    def streamReader(self, schema: StructType) -> "ReachedReader":  # noqa: ARG002, N802 - Spark's
        """The reader of a query."""
        return ReachedReader(dict(self.options))


@dataclass
class Reached(InputPartition):
    """The times of a batch: none, or only the newest."""

    times_ms: list[int]


class ReachedReader(EndingReader):
    """Asks the sidecar on the driver, and reads without it."""

    def __init__(self, options: dict[str, str]) -> None:
        """Start without calling the sidecar."""
        self._options = options
        self._connection: Connection | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's names from here on
        """The offset before the first batch, when no time was reached."""
        return {REACHED: 0}

    def latestOffset(  # noqa: N802
        self,
        start: dict[str, int] | None = None,
        limit: object = None,  # noqa: ARG002 - there is at most one
    ) -> dict[str, int]:
        """The reached time, if the operator has something to do at it.

        It is also valid for a trigger that ends, because only a batch with data changes it.
        """
        with told():
            link = link_of_options(self._options)
            if self._connection is None:
                self._connection = link.connect()
            owed_ms = self._connection.call("settle", {"uid": link.uid}).header["owed_ms"]
        return {REACHED: max(owed_ms or 0, start[REACHED] if start else 0)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One partition, with the time if there is a new one."""
        return [Reached([end[REACHED]] if end != start else [])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The time."""
        assert isinstance(partition, Reached)
        yield pa.RecordBatch.from_pydict({REACHED: pa.array(partition.times_ms, pa.int64())})

    def stop(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def reached_times(spark: SparkSession, link_file: str) -> DataFrame:
    """The times of the operator that a file links to."""
    spark.dataSource.register(ReachedSource)
    return spark.readStream.format(FORMAT).option(LINK_FILE, link_file).load()

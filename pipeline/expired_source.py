"""A Spark source of a sidecar's expired records: `spark.readStream.format("idlestate.expired")`.

Offsets are the records' numbers, so that reading a range again returns the same records. Records
are acknowledged when the query has committed them. Options: `sidecar`, its address; `uid`, the
operator; `consumer`, the name under which records are acknowledged; `token_file`, `ca_file`,
`cert_file`, `key_file` if the sidecar requires them. `retain` passes a file instead, into which the
start of the query writes these options.
"""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from idlestate.backends.shards.changelog_rows import change_schema
from idlestate.errors import IdlestateError, RefusedError
from idlestate.pipeline.sidecar_link import SidecarLink
from idlestate.pipeline.spark.spark_types import spark_schema
from idlestate.pipeline.spark.task_errors import marked
from idlestate.sidecar.core.expired_log import numbers_of
from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.declaration import Declaration

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Spark defines it since 4.2

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Older versions support the trigger through a setting (`REQUIRED_SETTINGS`)."""


FORMAT = "idlestate.expired"
LINK_FILE = "link_file"
_ROWS_PER_TASK = 200_000
_ROWS_PER_CALL = 50_000
_SECRETS = ("token_file", "ca_file", "cert_file", "key_file")


class ExpiredSource(DataSource):
    """The source; register it with `spark.dataSource.register(ExpiredSource)`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of the operator's change rows; all of them are `expire` rows."""
        with told():
            link = link_of_options(self.options)
            connection = link.connect()
            try:
                facts = connection.call("describe", {"uid": link.uid}).header["declaration"]
            finally:
                connection.close()
        return spark_schema(change_schema(Declaration.from_json(facts).spec()))

    def streamReader(self, schema: StructType) -> "ExpiredReader":  # noqa: N802 - Spark's name
        """The reader of a query."""
        return ExpiredReader(dict(self.options), schema.names)


@dataclass
class Numbers(InputPartition):
    """A range of numbers for one task."""

    link: str
    begin: int
    end: int


class EndingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that supports triggers that end."""


class ExpiredReader(EndingReader):
    """Plans ranges on the driver, reads them in tasks."""

    def __init__(self, options: dict[str, str], names: Sequence[str]) -> None:
        """Start without calling the sidecar."""
        self._options = options
        self._names = list(names)
        self._last: int | None = None
        self._connection: Connection | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's names from here on
        """The number of the oldest retained record; earlier records were for other consumers. From
        now on, records are retained for this consumer too.
        """
        self._acknowledge(0)
        return {"seq": self._settled()["first_seq"]}

    def latestOffset(  # noqa: N802
        self,
        start: dict[str, int] | None = None,
        limit: Any = None,  # noqa: ARG002 - all there is, always
    ) -> dict[str, int]:
        """The number after the newest record; for a trigger that ends, the number at its start.

        Before Spark 4.2, it is called without arguments.
        """
        seq = self._settled()["next_seq"] if self._last is None else self._last
        return {"seq": max(seq, start["seq"] if start else 0)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember the end of the current records."""
        self._last = self._settled()["next_seq"]

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Ranges of numbers."""
        with told():
            link = link_of_options(self._options).to_text()
        edges = [*range(start["seq"], end["seq"], _ROWS_PER_TASK), end["seq"]]
        return [Numbers(link, begin, stop) for begin, stop in itertools.pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a range, each exactly once."""
        assert isinstance(partition, Numbers)
        with told():
            yield from self._records(partition)

    def _records(self, partition: Numbers) -> Iterator[pa.RecordBatch]:
        link = SidecarLink.of_text(partition.link)
        connection = link.connect()
        try:
            at = partition.begin
            while at < partition.end:
                header = {
                    "uid": link.uid,
                    "since": at,
                    "before": partition.end,
                    "most": _ROWS_PER_CALL,
                }
                answer = connection.call("expired", header)
                rows = pa.ipc.open_stream(answer.parts[0]).read_all() if answer.parts else None
                if rows is None or numbers_of(rows)[0].as_py() != at:
                    raise RefusedError(
                        f"expired records {at} to {partition.end - 1} of operator {link.uid!r} are "
                        "gone: they were older than expired_retention; start with a new checkpoint"
                    )
                at += len(rows)
                rows = rows.remove_column(rows.num_columns - 1)
                # The changelog may have an additional column for rejects.
                blank = pa.nulls(len(rows), pa.string())
                columns = [
                    rows.column(name) if name in rows.column_names else blank
                    for name in self._names
                ]
                yield from pa.table(columns, names=self._names).to_batches()
        finally:
            connection.close()

    def commit(self, end: dict[str, int]) -> None:
        """Acknowledge all records below a number."""
        self._acknowledge(end["seq"])

    def stop(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _acknowledge(self, upto: int) -> None:
        with told():
            link = link_of_options(self._options)
            header = {"uid": link.uid, "consumer": link.consumer, "upto": upto}
            self._connected().call("acknowledge", header)

    def _settled(self) -> dict[str, int]:
        """The available records, after batches that the query has committed took effect."""
        with told():
            link = link_of_options(self._options)
            return self._connected().call("settle", {"uid": link.uid}).header

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = link_of_options(self._options).connect()
        return self._connection


@contextmanager
def told() -> Iterator[None]:
    """Raise errors of the sidecar so that their text can be found in Spark's error."""
    try:
        yield
    except IdlestateError as error:
        raise marked(error) from error


def register_source(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(ExpiredSource)


def link_of_options(options: Any) -> SidecarLink:
    """The operator named by the options of a source.

    Raises:
        RefusedError: an option is missing.
    """
    file = options.get(LINK_FILE)
    if file is not None:
        return SidecarLink.of_text(Path(file).read_text())
    missing = [name for name in ("sidecar", "uid") if not options.get(name)]
    if missing:
        raise RefusedError(f"{FORMAT}: set option {' and '.join(missing)}")
    secrets = {name: options.get(name) for name in _SECRETS}
    address = Address(options.get("sidecar"), **secrets)
    return SidecarLink(address, options.get("uid"), options.get("consumer") or "spark")

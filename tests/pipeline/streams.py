"""What the tests through Spark share: input in files, queries, a sink, rows as plain Python."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import committed_batch
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.pipeline.checkpoint.recorded_shards import recorded_shards
from idlestate.pipeline.checkpoint.state_store_shards import read_shards
from idlestate.pipeline.read_state import read_state
from tests.compare import ROW_TIMES, STATE_TIMES

Found = dict[str, Any]
TIMESTAMP = pa.timestamp("us", "UTC")
FILES_PER_BATCH = 3
_FIRST_MODIFIED_S = 1_600_000_000


class Feed:
    """Input of a stream: a folder of Parquet files, the same number for every batch."""

    def __init__(self, folder: Path, schema: pa.Schema, files_per_batch: int = FILES_PER_BATCH):
        self.folder = folder
        self.schema = schema
        self.files_per_batch = files_per_batch
        self.files: list[Path] = []
        folder.mkdir(parents=True)

    def add(self, rows: Sequence[Mapping[str, Any]] | pa.Table) -> list[Path]:
        """One batch more, its rows dealt out over its files."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, self.schema)
        n = self.files_per_batch
        # A running query sees all files of a batch or none.
        unseen = self.folder.with_name(f"{self.folder.name}.unseen")
        unseen.mkdir()
        for at in range(n):
            path = unseen / f"{at:04}.parquet"
            pq.write_table(table.take(pa.array(range(at, len(table), n), pa.int64())), path)
            # Spark takes files in order of these times.
            modified = _FIRST_MODIFIED_S + len(self.files) + at
            os.utime(path, (modified, modified))
        seen = unseen.rename(self.folder / f"{len(self.files):04}")
        added = sorted(seen.iterdir())
        self.files += added
        return added

    def stream(self, spark: SparkSession) -> DataFrame:
        """The input as a stream, a batch of files at a time."""
        reader = spark.readStream.schema(self.spark_schema).option("recursiveFileLookup", True)
        return reader.option("maxFilesPerTrigger", self.files_per_batch).parquet(str(self.folder))

    def table(self, spark: SparkSession) -> DataFrame:
        """All of it as a batch DataFrame."""
        return spark.read.schema(self.spark_schema).parquet(*map(str, self.files))

    @property
    def spark_schema(self) -> StructType:
        return from_arrow_schema(self.schema, prefer_timestamp_ntz=True)


@dataclass
class Sink:
    """Keeps each batch's rows under its id, so that a batch that runs again replaces itself."""

    batches: dict[int, pa.Table] = field(default_factory=dict)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = frame.toArrow()

    @property
    def table(self) -> pa.Table:
        return pa.concat_tables(self.batches.values())


def start(changes: DataFrame, checkpoint: Path, sink: Sink, **trigger: Any) -> StreamingQuery:
    """Start a query; without a trigger it runs batch after batch."""
    writer = changes.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


def run(changes: DataFrame, checkpoint: Path, sink: Sink | None = None) -> Sink:
    """Run a query over what is there, to its end."""
    sink = Sink() if sink is None else sink
    start(changes, checkpoint, sink, availableNow=True).awaitTermination()
    return sink


def plain_rows(table: pa.Table, keys: Sequence[str]) -> list[Found]:
    """Rows with `key` as a tuple, the times of lives in ms, and everything else as it is."""
    columns: dict[str, list[Any]] = {}
    for name in table.schema.names:
        column = table.column(name)
        if name in (*ROW_TIMES, *STATE_TIMES) and name not in keys:
            micros = column.cast(pa.int64()).to_pylist()
            assert all(us is None or us % 1000 == 0 for us in micros), name
            columns[name] = [None if us is None else us // 1000 for us in micros]
        else:
            columns[name] = column.to_pylist()
    found = zip(*(columns.pop(name) for name in keys), strict=True)
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return [{"key": key, **row} for key, row in zip(found, rows, strict=True)]


def last_rows(rows: Iterable[Found]) -> list[Found]:
    """All expire rows, and of each life without one the update of the highest batch."""
    expired: list[Found] = []
    ended: set[tuple[Any, int]] = set()
    updates: dict[tuple[Any, int], Found] = {}
    for row in sorted(rows, key=lambda row: row["batch_id"]):
        life = row["key"], row["created_at"]
        assert life not in ended, ("a row after the end of its life", row)
        if row["change"] == "expire":
            expired.append(row)
            ended.add(life)
            updates.pop(life, None)
        elif row["change"] == "update" and row["created_at"] is not None:
            updates[life] = row
    return [*expired, *updates.values()]


def states(spark: SparkSession, checkpoint: Path, keys: Sequence[str], **which: Any) -> list[Found]:
    """The open lives as they are read back."""
    return plain_rows(read_state(spark, str(checkpoint), **which).toArrow(), keys)


def shards(spark: SparkSession, checkpoint: Path, uid: str) -> list[ShardRecord]:
    """What the state store holds after the newest committed batch; the copies next to the runs say
    the same.
    """
    folder = Folder(str(checkpoint))
    newest = committed_batch(folder)
    stored = read_shards(spark, str(checkpoint), uid, newest)
    copies = recorded_shards(folder, uid, read_layout(folder, uid), newest)
    assert copies is not None
    assert {each.shard: each for each in copies} == {each.shard: each for each in stored}
    return stored


def batch_times_ms(checkpoint: Path) -> list[int]:
    """When each batch was planned, read from the query's offset log."""
    logs = sorted((int(path.name), path) for path in _log_files(checkpoint / "offsets"))
    assert [number for number, _ in logs] == list(range(len(logs)))
    return [json.loads(path.read_text().splitlines()[1])["batchTimestampMs"] for _, path in logs]


def forget(log: Path, first: int) -> None:
    """Take batches out of one of Spark's logs, as if the driver had died before it wrote them."""
    for path in log.iterdir():
        number = path.name.removeprefix(".").removesuffix(".crc")
        if number.isdigit() and int(number) >= first:
            path.unlink()


def counted(rows: Iterable[Found]) -> Counter[str]:
    """A multiset of rows, whatever the order of their columns."""
    return Counter(repr(sorted(row.items())) for row in rows)


def _log_files(folder: Path) -> Iterable[Path]:
    return (path for path in folder.iterdir() if path.name.isdigit())

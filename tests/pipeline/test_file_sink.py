"""Spark's own file sink and tables: a batch that runs again counts once."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.repartition import repartition
from idlestate.pipeline.checkpoint.rollback import roll_back
from tests.compare import assert_rows
from tests.pipeline.clicks import AGGREGATES, KEYS, RULE, SCHEMA, hours, record, retained
from tests.pipeline.streams import Feed, Sink, forget, last_rows, plain_rows, run, start
from tests.reference_pipeline import play
from tests.spark_versions import needs_repartition

HOURS = 6
DELAY_MS = 600_000
ONCE = ["user", "created_at", "batch_id", "change"]
COMPACT = "spark.sql.streaming.fileSink.log.compactInterval"


class Written:
    """A query that writes with Spark's file sink, to a folder or to a table."""

    def __init__(
        self, spark: SparkSession, folder: Path, kind: str = "folder", hours: int = HOURS
    ) -> None:
        self.spark = spark
        self.kind = kind
        self.hours = hours
        self.feed = Feed(folder / "input", SCHEMA, files_per_batch=1)
        self.checkpoint = folder / "check point"
        self.out = folder / "out put"
        self.log = self.out / "_spark_metadata"
        self.table = f"changes_{abs(hash(folder))}"

    def start(self, checkpoint: Path | None = None) -> StreamingQuery:
        changes = retained(self.feed.stream(self.spark))
        writer = changes.writeStream.trigger(availableNow=True).option(
            "checkpointLocation", str(checkpoint or self.checkpoint)
        )
        if self.kind == "table":
            return writer.format("parquet").option("path", str(self.out)).toTable(self.table)
        return writer.start(str(self.out))

    def run(self) -> None:
        self.start().awaitTermination()

    @property
    def rows(self) -> DataFrame:
        if self.kind == "table":
            self.spark.catalog.refreshTable(self.table)
            return self.spark.read.table(self.table)
        return self.spark.read.parquet(str(self.out))

    def read_on(self, checkpoint: Path, sink: Sink) -> None:
        """A second query reads what the sink has."""
        run(self.spark.readStream.schema(self.rows.schema).parquet(str(self.out)), checkpoint, sink)

    @property
    def newest(self) -> int:
        return max(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*"))

    def noted(self) -> set[str]:
        return {path.name for path in self.log.iterdir() if not path.name.startswith(".")}

    def refusal(self, checkpoint: Path | None = None) -> str:
        with pytest.raises(RefusedError) as refused:
            self.start(checkpoint)
        return str(refused.value)

    def assert_right(self) -> None:
        """Each batch once, as an undisturbed run has it; also without Spark's log."""
        records = [[record(row) for row in batch] for batch in hours(0, self.hours)]
        expected = play(records, RULE, AGGREGATES, delay_ms=DELAY_MS).reference
        table = self.rows.toArrow()
        assert_rows(expected.last_rows(), last_rows(plain_rows(table, KEYS)), AGGREGATES)
        found = Counter(tuple(row.values()) for row in table.select(ONCE).to_pylist())
        assert set(found.values()) == {1}
        assert ds.dataset(self.out, format="parquet").count_rows() == len(table)


SINKS = ["folder", pytest.param("table", marks=(pytest.mark.long, pytest.mark.variant))]


@pytest.fixture
def written(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> Iterator[Written]:
    query = Written(spark, tmp_path, getattr(request, "param", "folder"))
    yield from filled(query)


@pytest.fixture
def brief(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Written]:
    """Three hours: Spark compacts the notes of its log once."""
    yield from filled(Written(spark, tmp_path, getattr(request, "param", "folder"), hours=3))


def filled(query: Written) -> Iterator[Written]:
    for batch in hours(0, query.hours):
        query.feed.add(batch)
    query.spark.conf.set(COMPACT, 3)
    yield query
    query.spark.conf.unset(COMPACT)
    query.spark.sql(f"DROP TABLE IF EXISTS {query.table}")


@pytest.mark.parametrize("brief", SINKS, indirect=True)
def test_a_batch_that_the_sink_has_and_spark_has_not_committed_runs_again(brief: Written) -> None:
    """The driver died between the two; also where the newest note is a compact one.

    A query that reads the sink has read the batch before it runs again.
    """
    brief.run()
    brief.assert_right()
    assert "2.compact" in brief.noted()
    for batch in (brief.newest, 2):
        forget(brief.checkpoint / "commits", batch)
        forget(brief.checkpoint / "offsets", batch + 1)
        for note in brief.log.iterdir():
            number = note.name.removeprefix(".").removesuffix(".crc").removesuffix(".compact")
            if number.isdigit() and int(number) > batch:
                note.unlink()
        second, checkpoint = Sink(), brief.out.with_name(f"second {batch}")
        brief.read_on(checkpoint, second)
        brief.run()
        assert "2.compact" in brief.noted()
        brief.read_on(checkpoint, second)
        read = Counter(map(str, second.table.select(ONCE).to_pylist()))
        assert read == Counter(map(str, brief.rows.toArrow().select(ONCE).to_pylist()))
        assert set(read.values()) == {1}


@pytest.mark.long
@pytest.mark.parametrize("written", SINKS, indirect=True)
def test_after_a_rollback_all_undone_batches_are_written_again(
    written: Written, spark: SparkSession
) -> None:
    written.run()
    before = sorted(map(str, written.rows.collect()))
    newest = written.newest

    def start_second() -> StreamingQuery:
        ended = spark.readStream.schema(written.rows.schema).parquet(str(written.out))
        of_second = {"event_time": "expired_at", "aggregates": {"lives": "count"}, "uid": "second"}
        checkpoint = written.out.with_name("second")
        return start(retained(ended, **of_second), checkpoint, Sink(), availableNow=True)

    start_second().awaitTermination()
    for to in (newest - 1, 1):
        roll_back(spark, str(written.checkpoint), to)
        written.run()
        with pytest.raises(RefusedError, match="which a rollback of the query that wrote it"):
            start_second()
        assert written.newest == newest
        assert sorted(map(str, written.rows.collect())) == before
        written.assert_right()


@pytest.mark.long
@needs_repartition
@pytest.mark.parametrize("interval", [3, 4])
def test_a_batch_that_the_sink_never_saw_does_not_break_its_log(
    spark: SparkSession, tmp_path: Path, interval: int
) -> None:
    """That of a repartition, in the place of a compact note or before it."""
    written = Written(spark, tmp_path)
    first, *others = hours(0, HOURS)
    written.feed.add(first)
    spark.conf.set(COMPACT, interval)
    written.run()
    assert repartition(spark, str(written.checkpoint), 1) == 2
    for batch in others:
        written.feed.add(batch)
    written.run()
    spark.conf.unset(COMPACT)
    assert [name for name in written.noted() if name.endswith("compact")]
    written.assert_right()


@pytest.mark.long
def test_a_folder_that_takes_the_place_of_another_goes_on_from_there(written: Written) -> None:
    """Also when Spark compacts its log, in which the earlier batches are missing."""
    later = written.feed.folder.with_name("later")
    later.mkdir()
    for hour in ("0004", "0005"):
        shutil.move(written.feed.folder / hour, later / hour)
    written.run()
    before = written.newest
    written.out = written.out.with_name("another")
    written.log = written.out / "_spark_metadata"
    for hour in ("0004", "0005"):
        shutil.move(later / hour, written.feed.folder / hour)
    written.run()
    assert "5.compact" in written.noted()
    assert {row.batch_id for row in written.rows.select("batch_id").distinct().collect()} == set(
        range(before + 1, written.newest + 1)
    )


@pytest.mark.long
def test_a_sink_of_another_query_is_refused_and_left_as_it_is(brief: Written) -> None:
    brief.run()
    before = brief.noted(), brief.rows.count()
    message = brief.refusal(brief.checkpoint.with_name("another"))
    assert "belongs to another query" in message
    assert str(brief.out) in message
    assert (brief.noted(), brief.rows.count()) == before


@pytest.mark.long
def test_notes_of_unknown_origin_are_refused_with_the_files_to_remove(written: Written) -> None:
    """A folder that an earlier version wrote carries no mark."""
    written.run()
    newest = written.newest
    (written.out / "_idlestate.json").unlink()
    forget(written.checkpoint / "commits", newest)
    message = written.refusal()
    assert f"({newest}; the checkpoint has committed {newest - 1})" in message
    assert f".{newest}.crc" in message
    for name in (f"{newest}", f".{newest}.crc"):
        (written.log / name).unlink()
    written.run()
    assert written.rows.count() == len(set(map(str, written.rows.collect())))


@pytest.mark.long
def test_notes_are_not_removed_if_earlier_ones_would_be_lost(
    written: Written, spark: SparkSession
) -> None:
    written.run()
    for name in ("0", "1", "2.compact", "3", "4"):
        (written.log / name).unlink()
    roll_back(spark, str(written.checkpoint), 4)
    before = written.noted()
    assert "start with a new checkpoint" in written.refusal()
    assert written.noted() == before


@pytest.mark.long
def test_files_of_a_sink_that_was_copied_are_not_removed(
    written: Written, spark: SparkSession
) -> None:
    """Notes name files by their full path: those of a copy name the original's."""
    written.run()
    files = set(written.out.glob("*.parquet"))
    copies = written.out.parent / "copy"
    shutil.copytree(written.checkpoint, copies / "checkpoint")
    shutil.copytree(written.out, copies / "out")
    written.checkpoint, written.out = copies / "checkpoint", copies / "out"
    written.kind = "folder"
    roll_back(spark, str(written.checkpoint), written.newest - 1)
    written.run()
    assert set(files) == {file for file in files if file.exists()}

"""Bounded input in a job of one's own: every row comes, however often the job was killed."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from idlestate import run_to_end
from idlestate.errors import RefusedError
from tests.compare import assert_rows
from tests.pipeline.clicks import AGGREGATES, KEYS, RULE, SCHEMA, hours, record, retained
from tests.pipeline.streams import Feed, Sink, forget, last_rows, plain_rows, run, start
from tests.reference_pipeline import play

BATCHES = hours(0, 3)
DELAY_MS = 600_000


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    found = Feed(tmp_path / "input", SCHEMA)
    for batch in BATCHES:
        found.add(batch)
    return found


def test_a_sweep_that_a_crash_prevented_is_made_up_for(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    checkpoint, sink, starts = tmp_path / "checkpoint", Sink(), 0
    run(retained(feed.stream(spark)), checkpoint, sink)
    swept = max(sink.batches)
    rows = sink.batches.pop(swept)
    assert set(rows.column("change").to_pylist()) == {"expire"}
    forget(checkpoint / "commits", swept)
    forget(checkpoint / "offsets", swept)

    run(retained(feed.stream(spark)), checkpoint, sink)
    assert swept not in sink.batches, "Spark alone finds nothing to do"

    def once_more() -> StreamingQuery:
        nonlocal starts
        starts += 1
        return start(retained(feed.stream(spark)), checkpoint, sink, availableNow=True)

    query = run_to_end(once_more)
    assert not query.isActive
    assert starts == 2
    records = [[record(row) for row in batch] for batch in BATCHES]
    expected = play(records, RULE, AGGREGATES, delay_ms=DELAY_MS).reference
    assert_rows(expected.last_rows(), last_rows(plain_rows(sink.table, KEYS)), AGGREGATES)

    run_to_end(once_more)
    assert starts == 3, "nothing is owed any more"


@pytest.mark.long
def test_the_batch_that_runs_again_for_it_replaces_what_a_file_sink_holds(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"

    def started() -> StreamingQuery:
        writer = retained(feed.stream(spark)).writeStream.trigger(availableNow=True)
        return writer.option("checkpointLocation", str(checkpoint)).start(str(out))

    run_to_end(started)
    before = sorted(map(str, spark.read.parquet(str(out)).collect()))
    newest = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    forget(checkpoint / "commits", newest)
    forget(checkpoint / "offsets", newest)
    for name in (str(newest), f".{newest}.crc"):
        (out / "_spark_metadata" / name).unlink()
    run_to_end(started)
    assert sorted(map(str, spark.read.parquet(str(out)).collect())) == before


def test_a_query_without_retain_is_refused(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    plain = feed.stream(spark)
    with pytest.raises(RefusedError, match="does not use retain"):
        run_to_end(lambda: start(plain, tmp_path / "checkpoint", Sink(), availableNow=True))

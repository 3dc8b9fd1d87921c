"""Folders for updates, ends and rejects, written by one query; and batches that run again."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from idlestate import FolderSinks
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.rollback import roll_back
from idlestate.pipeline.spark.task_errors import plain_message
from tests.compare import assert_states
from tests.pipeline.clicks import (
    AGGREGATES,
    KEYS,
    MINUTE_MS,
    RULE,
    SCHEMA,
    click,
    hours,
    record,
    retained,
)
from tests.pipeline.streams import Feed, Sink, counted, forget, states
from tests.reference_pipeline import play

DELAY_MS = 10 * MINUTE_MS
KINDS = {"results": "update", "expired": "expire", "rejects": "reject"}


class Both:
    """Folder sinks, and beside them what they were given."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.folders = FolderSinks(
            **{name: str(folder / name) for name in KINDS if name != options.get("without")},
            format=options.get("format", "parquet"),
        )
        self.given = Sink()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.given(frame, batch_id)
        self.folders(frame, batch_id)

    def written(self, spark: SparkSession, name: str, schema: str | None = None) -> list[Any]:
        reader = spark.read.format(self.folders.format)
        reader = reader.schema(schema) if schema else reader
        return counted(reader.load(str(self.folder / name)).toArrow().to_pylist())

    def expected(self, name: str) -> list[Any]:
        """What rows of a kind of change say; only rejects say what was rejected."""
        table = self.given.table
        rows = (table if name == "rejects" else table.drop_columns(["rejected"])).to_pylist()
        return counted(row for row in rows if row["change"] == KINDS[name])


@pytest.mark.parametrize(
    ("sinks", "message"),
    [
        ({"results": "out", "expired": "./out/"}, r"expired is the same folder as results \(out\)"),
        ({"results": "out", "rejects": "out/rejects"}, "rejects is inside the folder of results"),
        ({"results": "s3://b/a/x", "expired": "s3://b/a"}, "results is inside the folder of exp"),
        ({"results": Path("out")}, "is not a folder of a sink; pass a path or URL as a string"),
    ],
)
def test_folders_that_overlap_are_refused(sinks: dict[str, Any], message: str) -> None:
    """Else the rows of one of them would be lost."""
    with pytest.raises(RefusedError, match=message):
        FolderSinks(**sinks)


def feed_of(folder: Path, batches: int) -> Feed:
    feed = Feed(folder / "input", SCHEMA)
    for batch in hours(0, batches):
        feed.add([*batch, {**click("nobody", 0), "event_time": None}])
    return feed


def start_both(spark: SparkSession, feed: Feed, checkpoint: Path, both: Both) -> None:
    changes = retained(feed.stream(spark), rejects=True)
    writer = changes.writeStream.foreachBatch(both)
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_every_kind_of_change_has_its_folder(spark: SparkSession, tmp_path: Path) -> None:
    feed, checkpoint, both = feed_of(tmp_path, 2), tmp_path / "checkpoint", Both(tmp_path / "out")
    # What an attempt that was killed left in the staging folder is not taken for this batch's.
    stale = tmp_path / "out" / "results" / "_staging" / "_change=expire"
    stale.mkdir(parents=True)
    (stale / "part-0.parquet").write_bytes(b"half a file")
    start_both(spark, feed, checkpoint, both)
    for name in KINDS:
        assert both.written(spark, name) == both.expected(name), name
        assert both.expected(name)
    first = {path: path.read_bytes() for path in tmp_path.glob("out/*/batch_id=*/*.parquet")}

    # The last batch with data runs again, and the sweep after it: nothing doubles.
    newest = max(both.given.batches)
    before = dict(both.given.batches)
    forget(checkpoint / "commits", newest - 1)
    forget(checkpoint / "offsets", newest)
    start_both(spark, feed, checkpoint, both)
    assert both.given.batches.keys() == before.keys()
    for number, table in before.items():
        assert counted(both.given.batches[number].to_pylist()) == counted(table.to_pylist()), number
    for name in KINDS:
        assert both.written(spark, name) == both.expected(name), name
    # Other queries may have read the files of these batches: they stay.
    again = {path: path.read_bytes() for path in tmp_path.glob("out/*/batch_id=*/*.parquet")}
    assert again == first
    records = [[record(row) for row in batch] for batch in hours(0, 2)]
    expected = play(records, RULE, AGGREGATES, delay_ms=DELAY_MS).reference
    assert_states(expected.states(), states(spark, checkpoint, KEYS), AGGREGATES)

    # What a rollback undid is written again.
    roll_back(spark, str(checkpoint), newest - 2)
    start_both(spark, feed, checkpoint, both)
    assert both.given.batches.keys() == before.keys()
    for name in KINDS:
        assert both.written(spark, name) == both.expected(name), name
    gone = {path for path in first if not path.exists()}
    assert {path.parent.name for path in gone} == {f"batch_id={newest - 1}", f"batch_id={newest}"}
    notes = (tmp_path / "out").glob("*/_idlestate.undone")
    assert {name for note in notes for name in note.read_text().split()} == {
        path.name for path in gone
    }

    # The folders are this query's: with another checkpoint it is another query.
    with pytest.raises(StreamingQueryException) as refused:
        start_both(spark, feed, tmp_path / "another", both)
    message = plain_message(str(refused.value))
    assert message is not None
    assert "belongs to another query" in message
    assert "use a new folder" in message


@pytest.mark.parametrize("name", KINDS)
def test_a_folder_that_cannot_be_written_is_refused_before_the_query_starts(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    changes = retained(feed_of(tmp_path, 1).stream(spark))
    folders = {each: str(tmp_path / each) for each in KINDS} | {name: f"/proc/idlestate/{name}"}
    with pytest.raises(RefusedError) as refused:
        changes.writeStream.foreachBatch(FolderSinks(**folders))
    told = str(refused.value)
    assert told.startswith(f"sink {name}: folder /proc/idlestate/{name} cannot be created: ")
    assert len(told.splitlines()) == 1


def test_the_check_of_folders_leaves_no_files(spark: SparkSession, tmp_path: Path) -> None:
    changes = retained(feed_of(tmp_path, 1).stream(spark))
    folders = {each: tmp_path / "out" / each for each in KINDS}
    changes.writeStream.foreachBatch(FolderSinks(**{each: str(at) for each, at in folders.items()}))
    assert not [file for at in folders.values() for file in at.iterdir()]
    assert all(at.is_dir() for at in folders.values())


def test_folders_with_other_files_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    feed, both = feed_of(tmp_path, 1), Both(tmp_path / "out")
    (tmp_path / "out" / "expired").mkdir(parents=True)
    (tmp_path / "out" / "expired" / "thesis.docx").write_bytes(b"years of work")
    with pytest.raises(StreamingQueryException) as refused:
        start_both(spark, feed, tmp_path / "checkpoint", both)
    message = plain_message(str(refused.value))
    assert message is not None
    assert "holds files that idlestate did not write (thesis.docx)" in message
    assert (tmp_path / "out" / "expired" / "thesis.docx").exists()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_only_rejects_say_what_was_rejected(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    feed, both = feed_of(tmp_path, 3), Both(tmp_path / "out", format=kind)
    strange = {**click('a b,"c"\\\n;é', 0), "event_time": None}
    feed.add([strange])
    start_both(spark, feed, tmp_path / "checkpoint", both)
    if kind == "parquet":
        written = {name: spark.read.parquet(str(tmp_path / "out" / name)) for name in KINDS}
        assert [name for name in KINDS if "rejected" in written[name].columns] == ["rejects"]
    columns = [*both.given.table.drop_columns(["rejected"]).schema.names[:-1], "rejected"]
    strings = ", ".join(f"`{name}` string" for name in [*columns, "batch_id"])
    reader = spark.read.format(kind)
    reader = reader if kind == "parquet" else reader.schema(strings)
    found = reader.load(str(tmp_path / "out" / "rejects")).select("reason", "rejected").collect()
    expected = [
        (row["reason"], row["rejected"])
        for row in both.given.table.to_pylist()
        if row["change"] == "reject"
    ]
    assert sorted(map(tuple, found)) == sorted(expected)
    assert any("é" in text for _, text in expected)


@pytest.mark.parametrize("kind", ["json", pytest.param("csv", marks=pytest.mark.long)])
def test_other_formats_and_fewer_folders(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    feed = Feed(tmp_path / "input", SCHEMA)
    feed.add([row for batch in hours(0, 2) for row in batch])
    both = Both(tmp_path / "out", format=kind, without="rejects")
    start_both(spark, feed, tmp_path / "checkpoint", both)
    assert not (tmp_path / "out" / "rejects").exists()
    schema = (
        "user string, n long, total long, page string, change string, created_at timestamp, "
        "last_access timestamp, expired_at timestamp, reason string, batch_id long"
    )
    for name in ("results", "expired"):
        assert both.written(spark, name, schema) == both.expected(name)
    owner = json.loads((tmp_path / "out" / "results" / "_idlestate.json").read_text())
    assert owner.keys() == {"query_id", "rollbacks"}

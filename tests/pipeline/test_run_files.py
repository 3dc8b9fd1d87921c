"""Files of state: none is left over, none goes too early, and a lost one is named."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from idlestate import read_state
from idlestate.pipeline.spark.task_errors import plain_message
from tests.compare import assert_rows, assert_states
from tests.pipeline.clicks import (
    AGGREGATES,
    KEYS,
    MINUTE_MS,
    RULE,
    SCHEMA,
    UID,
    hours,
    record,
    retained,
)
from tests.pipeline.streams import Feed, Sink, last_rows, plain_rows, run, shards, states
from tests.reference import Reference
from tests.reference_pipeline import play

RETAINED = 2
DELAY_MS = 10 * MINUTE_MS


class Query:
    """A query over hours of clicks, one batch an hour."""

    def __init__(self, spark: SparkSession, folder: Path, **changed: Any) -> None:
        self.spark = spark
        self.feed = Feed(folder / "input", SCHEMA)
        self.checkpoint = folder / "checkpoint"
        self.sink = Sink()
        self.hours = 0
        self.changed = changed

    def run(self, more_hours: int) -> None:
        for batch in hours(self.hours, more_hours):
            self.feed.add(batch)
        self.hours += more_hours
        changes = retained(self.feed.stream(self.spark), **self.changed)
        run(changes, self.checkpoint, self.sink)

    def reference(self, hours_seen: int | None = None) -> Reference:
        batches = hours(0, self.hours if hours_seen is None else hours_seen)
        records = [[record(row) for row in batch] for batch in batches]
        return play(records, RULE, AGGREGATES, delay_ms=DELAY_MS).reference

    def assert_equals_the_reference(self) -> None:
        expected = self.reference()
        found = last_rows(plain_rows(self.sink.table, KEYS))
        assert_rows(expected.last_rows(), found, AGGREGATES)
        assert_states(expected.states(), states(self.spark, self.checkpoint, KEYS), AGGREGATES)

    @property
    def files(self) -> dict[str, Path]:
        """Every file of state by name."""
        folder = self.checkpoint / "idlestate" / UID / "runs"
        return {path.name: path for path in folder.glob("*/*-*")}

    @property
    def named(self) -> set[str]:
        """The files that the newest committed state is kept in and made of."""
        found = shards(self.spark, self.checkpoint, UID)
        return {name for shard in found for name in shard.files}


def test_files_go_when_no_retained_batch_names_them(spark: SparkSession, tmp_path: Path) -> None:
    setting = "spark.sql.streaming.minBatchesToRetain"
    before = spark.conf.get(setting)
    spark.conf.set(setting, str(RETAINED))
    try:
        query = Query(spark, tmp_path, shards=2)
        query.run(2)
        first = set(query.files)
        query.run(4)
        assert_files_are_those_in_use(query)
        assert first - query.files.keys(), "nothing was ever removed"
        # A batch that is retained can be read as it was: here the last one with data.
        seen = states(spark, query.checkpoint, KEYS, batch_id=max(query.sink.batches) - 1)
        assert_states(reference_without_last_sweep(query).states(), seen, AGGREGATES)
        # A smaller number than before takes nothing away from those who rely on the larger.
        spark.conf.set(setting, "1")
        query.run(3)
        assert_files_are_those_in_use(query)
        query.assert_equals_the_reference()
    finally:
        spark.conf.set(setting, before)


def assert_files_are_those_in_use(query: Query) -> None:
    """Each file is named by the state or was dropped by one of the last batches."""
    newest = max(query.sink.batches)
    dropped = [
        each for shard in shards(query.spark, query.checkpoint, UID) for each in shard.dropped
    ]
    assert query.files.keys() == query.named | {each.name for each in dropped}
    # The batch without data at the end visits only the shards in which something was due.
    assert all(each.version + RETAINED >= newest - 1 for each in dropped)
    # Not every batch merges; of the last three at least one did.
    assert dropped, "gone too early"


def reference_without_last_sweep(query: Query) -> Reference:
    records = [[record(row) for row in batch] for batch in hours(0, query.hours)]
    return play(records, RULE, AGGREGATES, delay_ms=DELAY_MS, final_sweep=False).reference


def test_files_of_attempts_that_lost_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, shards=2)
    query.run(2)
    some = next(iter(query.files.values()))
    lost = some.with_name("1-open-0123456789abcdef0123456789abcdef.arrow")
    future = some.with_name("99-open-0123456789abcdef0123456789abcdef.arrow")
    foreign = some.with_name("notes.txt")
    for path in (lost, future, foreign):
        path.write_bytes(b"left behind")
    query.run(1)
    assert not lost.exists()
    assert future.exists(), "an attempt of a batch that is not committed may still be running"
    assert foreign.exists(), "a name that is none of ours"
    query.assert_equals_the_reference()


@pytest.mark.long
def test_a_lost_file_is_named_and_can_be_brought_back(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, shards=1)
    query.run(1)
    (name,) = (name for name in query.named if "-open-" in name)
    path = query.files[name]
    copy = path.rename(tmp_path / name)
    data = copy.read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0xFF
    for harmed, word in ((flipped, "damaged"), (data[:-8], "damaged"), (None, "missing")):
        path.unlink(missing_ok=True)
        if harmed is not None:
            path.write_bytes(harmed)
        with pytest.raises(PySparkException) as unread:
            read_state(spark, str(query.checkpoint)).collect()
        assert_says_what_to_do(unread.value, path, word)
    with pytest.raises(StreamingQueryException) as stopped:
        query.run(1)
    assert_says_what_to_do(stopped.value, path, "missing")

    shutil.copy(copy, path)
    query.run(1)
    query.assert_equals_the_reference()


def assert_says_what_to_do(error: Exception, path: Path, word: str) -> None:
    message = plain_message(str(error))
    assert message is not None, str(error)
    assert str(path) in message
    assert f"is {word}" in message
    assert "restore it from a copy of the checkpoint" in message


@pytest.mark.long
def test_a_checkpoint_can_be_copied_and_moved(spark: SparkSession, tmp_path: Path) -> None:
    """Also from and to folders whose names a URL would escape."""
    query = Query(spark, tmp_path / "old place")
    query.run(1)
    original, copy = query.checkpoint, tmp_path / "100%20 #1 é"
    before = sorted(states(spark, original, KEYS), key=repr)
    assert before
    shutil.copytree(original, copy)
    untouched = tree(original)
    query.checkpoint = copy
    query.run(1)
    query.assert_equals_the_reference()
    assert tree(original) == untouched

    shutil.rmtree(copy)
    shutil.move(original, tmp_path / "moved")
    query.checkpoint = tmp_path / "moved"
    assert sorted(states(spark, query.checkpoint, KEYS), key=repr) == before
    query.run(1)
    query.assert_equals_the_reference()
    assert not original.exists()


def test_runs_elsewhere_serve_as_those_of_the_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, runs=str(tmp_path / "elsewhere"))
    query.run(2)
    assert query.files == {}
    query.checkpoint = query.checkpoint.rename(tmp_path / "moved")
    query.run(1)
    query.assert_equals_the_reference()
    (place,) = (tmp_path / "elsewhere").iterdir()
    assert query.named <= {path.name for path in place.glob("*/*-*")}


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}

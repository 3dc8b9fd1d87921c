"""The copies of records next to the runs: what the state store says, without Spark."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import idlestate
from idlestate import Policy
from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.record_copies import new_name, newest_copy, remove_copies, write_copy
from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.files.spark_logs import committed_batch
from idlestate.backends.shards.shard_record import RunRef, ShardRecord, TableRecord
from idlestate.pipeline.checkpoint.recorded_shards import UnrecordedError, recorded_shards
from idlestate.pipeline.checkpoint.repartition import repartition
from idlestate.pipeline.checkpoint.rollback import roll_back
from idlestate.pipeline.checkpoint.state_store_shards import read_shards
from tests.pipeline.clicks import SCHEMA, UID, click, hours, retained
from tests.pipeline.streams import Feed, forget, run, shards
from tests.spark_versions import needs_repartition

SHARD = 3


@pytest.fixture
def runs(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path / str(SHARD)))


def saved(runs: Folder, batch_id: int, *, time_ms: int = 0, made_of: str = "") -> ShardRecord:
    """A record with a copy, by an attempt of its own."""
    tables = {"open": TableRecord((RunRef(made_of, batch_id, 1, 1),))} if made_of else {}
    record = ShardRecord("clicks", SHARD, tables, time_ms=time_ms)
    value = RunFiles(Folder(str(Path(runs.url).parent)), SHARD).save(record, batch_id)
    return ShardRecord.decode(value)


def test_the_newest_copy_up_to_a_batch_counts(runs: Folder) -> None:
    assert newest_copy(runs, 9) is None
    first, second = saved(runs, 2, time_ms=2), saved(runs, 11, time_ms=11)
    assert newest_copy(runs, 1) is None
    assert newest_copy(runs, 2) == newest_copy(runs, 10) == first
    assert newest_copy(runs, 11) == second


def test_a_copy_whose_writer_was_killed_does_not_count(runs: Folder) -> None:
    value = ShardRecord("clicks", SHARD).encode()
    whole = saved(runs, 5)
    for cut in (0, 3, 7, len(value) - 1, len(value), len(value) + 7):
        name = new_name(5)
        write_copy(runs, name, value)
        path = Path(runs.path(name))
        path.write_bytes(path.read_bytes()[:cut])
        assert newest_copy(runs, 5) == whole, cut
    runs.remove(whole.file)
    assert newest_copy(runs, 5) is None, "an older one would be too old"


def test_a_copy_of_an_attempt_whose_runs_are_gone_does_not_count(runs: Folder) -> None:
    runs.write("5-open-of-the-winner.arrow", b"run")
    for _ in range(4):
        saved(runs, 5, made_of="5-open-of-a-loser.arrow")
    won = saved(runs, 5, made_of="5-open-of-the-winner.arrow")
    assert newest_copy(runs, 5) == won


def test_a_copy_that_is_older_than_a_run_does_not_count(runs: Folder) -> None:
    record = saved(runs, 5)
    runs.write("7-open-run.arrow", b"run")
    assert newest_copy(runs, 6) == record
    assert newest_copy(runs, 7) is None


def test_a_start_removes_copies_of_undone_batches_alone(runs: Folder) -> None:
    kept = saved(runs, 4)
    saved(runs, 5), saved(runs, 40)
    runs.write("5-open-run.arrow", b"run")
    remove_copies(Folder(str(Path(runs.url).parent)), [SHARD, SHARD + 1], after=4)
    assert set(runs.names("")) == {kept.file, "5-open-run.arrow"}


class Query:
    """A query over hours of clicks, one batch an hour."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.checkpoint = folder / "checkpoint"
        self.feed = Feed(folder / "input", SCHEMA)
        self.hours = 0

    def run(self, more_hours: int) -> None:
        for batch in hours(self.hours, more_hours):
            self.feed.add(batch)
        self.hours += more_hours
        run(retained(self.feed.stream(self.spark)), self.checkpoint)

    def assert_copies_are_the_state(self) -> None:
        assert shards(self.spark, self.checkpoint, UID)

    def recorded(self) -> list[ShardRecord] | None:
        folder = Folder(str(self.checkpoint))
        return recorded_shards(folder, UID, read_layout(folder, UID), committed_batch(folder))


@pytest.mark.long
@needs_repartition
def test_copies_are_the_state_after_rollback_replay_and_repartition(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path)
    query.run(3)
    query.assert_copies_are_the_state()
    newest = committed_batch(Folder(str(query.checkpoint)))

    # The driver died after the last batch had run and before it was committed.
    forget(query.checkpoint / "commits", newest)
    query.assert_copies_are_the_state()
    query.run(0)
    query.assert_copies_are_the_state()

    # Other batches come after those that a rollback has undone.
    roll_back(spark, str(query.checkpoint), 1)
    query.assert_copies_are_the_state()
    query.run(2)
    query.assert_copies_are_the_state()

    repartition(spark, str(query.checkpoint), 4)
    query.assert_copies_are_the_state()
    query.run(1)
    query.assert_copies_are_the_state()


def test_copies_are_the_state_after_a_batch_without_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its rows are filtered out before they are packed: no shard is visited."""
    query = Query(spark, tmp_path)
    query.run(1)
    query.feed.add([click("nobody", 70, amount=-1)])
    changes = retained(query.feed.stream(spark).where("amount >= 0"))
    run(changes, query.checkpoint)
    query.assert_copies_are_the_state()


def test_a_batch_writes_missing_copies_anew(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    query.run(2)
    newest = committed_batch(Folder(str(query.checkpoint)))
    folder = query.checkpoint / "idlestate" / UID / "runs"
    for path in folder.glob("*/*-record-*"):
        if int(path.name.partition("-")[0]) > 0:
            path.unlink()
    assert newest > 0
    assert query.recorded() is None, "those of an earlier batch do not stand in"
    with pytest.raises(UnrecordedError):
        idlestate.plan(Policy(ttl="1h"), query.checkpoint)
    (read,) = idlestate.plan(Policy(ttl="1h"), query.checkpoint, spark=spark)
    stored = read_shards(spark, str(query.checkpoint), UID, newest)
    assert read.stored_keys == sum(each.live_keys for each in stored) > 0
    query.run(1)
    query.assert_copies_are_the_state()

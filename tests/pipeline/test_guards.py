"""What a started query refuses: checkpoints that are not its own, or not any more."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.streaming.readwriter import DataStreamWriter

from idlestate import Policy, read_state
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import newest_batch
from idlestate.errors import RefusedError, UnavailableError
from idlestate.pipeline import sidecar_attachment
from idlestate.retention.policy import TimeDomain
from tests.pipeline.clicks import AGGREGATES, KEYS, POLICY, SCHEMA, UID, click, hours, retained
from tests.pipeline.streams import Feed, Sink, run, start, states

WAY_OUT = "restore the job, or use a new checkpoint folder"
PROCESSING = Policy(
    idle_min_ms=POLICY.idle_min_ms,
    idle_max_ms=POLICY.idle_max_ms,
    remember_ms=POLICY.remember_ms,
    time=TimeDomain.PROCESSING,
)


class Started:
    """A query that has run, with a batch of new files for whoever starts it next."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.checkpoint = folder / "checkpoint"
        schema = pa.schema([*SCHEMA, ("wide", pa.int64()), ("ratio", pa.float64())])
        self.feed = Feed(folder / "input", schema)
        self.add(hours(0, 1)[0])
        run(self.changes(), self.checkpoint)

    def add(self, rows: list[dict[str, Any]]) -> None:
        self.feed.add([{**row, "wide": row["amount"], "ratio": row["amount"] / 2} for row in rows])

    def changes(self, events: DataFrame | None = None, **changed: Any) -> DataFrame:
        events = self.feed.stream(self.spark) if events is None else events
        aggregates = {**AGGREGATES, "mean": "avg(wide)", "by": "max_by(page, ratio)"}
        return retained(events, **({"aggregates": aggregates} | changed))

    def refusal(self, changes: DataFrame, checkpoint: Path | None = None) -> str:
        """What `start` raises; no batch is planned."""
        checkpoint = checkpoint or self.checkpoint
        planned = newest_batch(Folder(str(checkpoint)), "offsets")
        with pytest.raises(RefusedError) as refused:
            start(changes, checkpoint, Sink(), availableNow=True)
        assert newest_batch(Folder(str(checkpoint)), "offsets") == planned
        message = str(refused.value)
        assert "\n" not in message
        return message


@pytest.fixture(scope="module")
def started(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Tests may add batches that are refused; the next one and the last find them again."""
    query = Started(spark, tmp_path_factory.mktemp("guards"))
    query.add(hours(1, 1)[0])
    yield query
    # None of the refusals has harmed the checkpoint.
    run(query.changes(), query.checkpoint)
    found = {row["key"][0]: row["n"] for row in states(spark, query.checkpoint, KEYS)}
    assert found["a"] == 6


CHANGED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "aggregate-text": (
        {"aggregates": {"n": "count", "total": "max(amount)", "page": "last(page)"}},
        ["aggregate total was sum(amount), is now max(amount): give the new one another name"],
    ),
    "renamed": (
        {"aggregates": {**AGGREGATES, "clicks": "count"}, "renamed": {"clicks": "visits"}},
        ["the state has no aggregate visits (it has n, total, page, mean, by)"],
    ),
    "keys": ({"key": ["user", "wide"]}, ["keys was user: string, is now", "wide: int64"]),
    "order": ({"order": ["amount"]}, ["order was none, is now amount: int32"]),
    "shards": ({"shards": 3}, ["shards was 8, is now 3"]),
}


@pytest.mark.parametrize("case", CHANGED)
def test_a_changed_operator_is_refused_with_the_difference(started: Started, case: str) -> None:
    changed, parts = CHANGED[case]
    message = started.refusal(started.changes(**changed))
    assert message.startswith(f"operator {UID!r} changed since checkpoint")
    assert WAY_OUT in message
    for part in parts:
        assert part in message


def test_another_time_domain_is_refused(started: Started) -> None:
    message = started.refusal(started.changes(policy=PROCESSING))
    assert "time was event, is now processing" in message
    assert WAY_OUT in message


def test_a_refusal_is_known_without_any_new_data(
    started: Started, spark: SparkSession, tmp_path: Path
) -> None:
    """No task runs that could raise it."""
    checkpoint = tmp_path / "checkpoint"
    run(started.changes(), checkpoint)
    assert "shards was 8, is now 3" in started.refusal(started.changes(shards=3), checkpoint)


def test_a_result_that_was_transformed_is_refused_too(started: Started) -> None:
    changes = started.changes(shards=3).where("n > 0").withColumnRenamed("n", "clicks")
    assert "shards was 8, is now 3" in started.refusal(changes)


def test_a_start_whose_sidecar_is_away_says_so_by_its_kind(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecar_attachment, "CONNECT_TIMEOUT_S", 0)
    changes = started.changes(backend="heap", sidecar=f"unix:{tmp_path}/away")
    with pytest.raises(UnavailableError, match="cannot connect to the sidecar"):
        start(changes, tmp_path / "checkpoint", Sink(), availableNow=True)


def test_a_refused_query_has_failed_for_all_who_look_at_it(started: Started) -> None:
    """In a line, without the traceback of a task."""
    writer = started.changes(shards=3).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(started.checkpoint))
    query = DataStreamWriter.start.__wrapped__(writer)  # type: ignore[attr-defined]
    with pytest.raises(StreamingQueryException) as failed:
        query.awaitTermination()
    first, *rest = str(failed.value).splitlines()
    assert "shards was 8, is now 3" in first
    assert "Traceback" not in "".join(rest)
    assert "shards was 8, is now 3" in str(query.exception())
    assert not query.isActive


@pytest.mark.parametrize("default", [False, True])
def test_a_query_without_a_checkpoint_of_its_own_is_refused(
    started: Started, spark: SparkSession, tmp_path: Path, default: bool
) -> None:
    """Also where Spark makes one of a random name below the session's."""
    name = "spark.sql.streaming.checkpointLocation"
    writer = started.changes().writeStream.format("noop").trigger(availableNow=True)
    if default:
        spark.conf.set(name, str(tmp_path))
    try:
        with pytest.raises(RefusedError, match=r'set .option\("checkpointLocation", "PATH"\)'):
            writer.start()
        if default:  # with a name it is found again
            writer.queryName("named").start().awaitTermination()
            assert newest_batch(Folder(str(tmp_path / "named")), "commits") is not None
    finally:
        spark.conf.unset(name)


@pytest.mark.parametrize("kind", ["folder", "table"])
def test_a_file_sink_without_a_checkpoint_is_refused_alike(
    started: Started, tmp_path: Path, kind: str
) -> None:
    writer = started.changes().writeStream.option("path", str(tmp_path / "out"))
    begin = {"folder": writer.start, "table": lambda: writer.toTable("no_checkpoint")}[kind]
    with pytest.raises(RefusedError, match=r'set .option\("checkpointLocation", "PATH"\)'):
        begin()


def test_a_checkpoint_that_cannot_be_made_is_refused_in_a_line(
    started: Started, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    message = started.refusal(started.changes(), tmp_path / "file")
    assert message.startswith("the checkpoint of the query cannot be created: ")
    assert message.endswith("set checkpointLocation to a folder that can be written to")


def test_a_second_query_on_a_checkpoint_is_refused_and_the_first_runs_on(
    started: Started, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    first = start(started.changes(), checkpoint, Sink())
    try:
        for changes in (started.changes(), started.changes(uid="visits")):
            with pytest.raises(RefusedError, match="a query runs on this checkpoint already"):
                start(changes, checkpoint, Sink())
        assert first.isActive
        first.processAllAvailable()
    finally:
        first.stop()


RETYPED = {
    "key": ("user", "binary", "keys was user: string, is now user: binary"),
    "result": ("page", "binary", "aggregate page: column page was string, is now binary"),
    # Neither shows in a result's type: an average stays a double, and what is kept is another.
    "average": ("wide", "double", "aggregate mean: column wide was int64, is now double"),
    "ordering": ("ratio", "string", "column ratio was double, is now string"),
}


@pytest.mark.parametrize("case", RETYPED)
def test_a_column_of_another_type_is_refused(started: Started, case: str) -> None:
    name, kind, difference = RETYPED[case]
    events = started.feed.stream(started.spark).withColumn(name, F.col(name).cast(kind))
    message = started.refusal(started.changes(events))
    assert difference in message
    assert WAY_OUT in message


def test_another_query_s_checkpoint_is_refused(started: Started, spark: SparkSession) -> None:
    message = started.refusal(started.changes(uid="visits"))
    assert "belongs to another query: it has run batch" in message
    assert "without an operator 'visits' (its operators: clicks)" in message
    assert "use a separate checkpoint for this query, or restore the previous uid" in message


def test_a_checkpoint_of_a_query_without_idlestate_is_refused(
    started: Started, spark: SparkSession, tmp_path: Path
) -> None:
    plain = started.feed.stream(spark).writeStream.format("noop")
    plain = plain.option("checkpointLocation", str(tmp_path / "plain"))
    plain.trigger(availableNow=True).start().awaitTermination()
    started.add([click("a", 70)])
    message = started.refusal(started.changes(), tmp_path / "plain")
    assert "belongs to another query" in message
    assert "its operators: none" in message


def test_an_operator_that_stands_twice_in_a_query_is_refused(
    started: Started, tmp_path: Path
) -> None:
    """Spark computes it twice, and each would take the other's files for leftovers."""
    changes = started.changes()
    both = changes.where("change = 'update'").union(changes.where("change = 'expire'"))
    message = started.refusal(both, tmp_path / "checkpoint")
    assert "uid 'clicks' is used 2 times in one query" in message


def test_two_operators_of_one_uid_in_a_query_are_refused(started: Started, tmp_path: Path) -> None:
    both = started.changes().union(started.changes())
    message = started.refusal(both, tmp_path / "checkpoint")
    assert message == (
        "uid 'clicks' is used 2 times in one query; give each retain() its own uid, and use its "
        "result once (to split it, use FolderSinks or foreachBatch)"
    )


def test_state_of_batches_and_operators_that_are_not_there(
    started: Started, spark: SparkSession
) -> None:
    place = str(started.checkpoint)
    with pytest.raises(RefusedError, match=r"no operator 'visits'; it holds .*clicks"):
        read_state(spark, place, uid="visits")
    with pytest.raises(RefusedError, match=r"no committed batch 77; the newest is \d"):
        read_state(spark, place, batch_id=77)

"""`deduplicate` through Spark: on every backend, over restarts, the rows of the reference."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import Policy, deduplicate, read_state, run_to_end
from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.files.folder import Folder
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.repartition import repartition
from idlestate.pipeline.checkpoint.rollback import roll_back
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from tests.backends.law_runner import policy_of
from tests.compare import assert_rows
from tests.pipeline.streams import TIMESTAMP, Feed, Found, Sink, counted, plain_rows, run, start
from tests.reference import ON_READ_AND_WRITE, Record, Rule
from tests.reference_deduplication import DeduplicationReference
from tests.reference_pipeline import Played, play
from tests.spark_versions import needs_repartition

UID = "once"
DELAY_MS = 3_000
BEGIN = datetime(2024, 5, 1, tzinfo=UTC)
SCHEMA = pa.schema([("user", pa.string()), ("at", TIMESTAMP), ("note", pa.string())])
BLOCKING = Rule(idle_min_ms=4_000, idle_max_ms=6_000, ttl_ms=9_000, max_lifetime_ms=7_000)
QUIET = Rule(idle_min_ms=4_000, idle_max_ms=6_000, update=ON_READ_AND_WRITE)
LONG = pytest.mark.long
CASES = [
    pytest.param("first", "spark", BLOCKING, id="first, spark, blocking"),
    pytest.param("first", "rocksdb", BLOCKING, id="first, rocksdb, blocking", marks=LONG),
    pytest.param("first", "heap", QUIET, id="first, heap, quiet period", marks=LONG),
    pytest.param("last", "spark", QUIET, id="last, spark", marks=LONG),
    pytest.param("last", "rocksdb", BLOCKING, id="last, rocksdb", marks=LONG),
    pytest.param("last", "heap", QUIET, id="last, heap", marks=LONG),
]


@pytest.fixture(autouse=True)
def no_sidecars_left() -> Iterator[None]:
    yield
    stop_private_sidecars()


def make_batches() -> list[list[dict[str, Any]]]:
    """Some 25 users, a batch of ten seconds, every time once; some rows are late."""
    chance = Random(5)
    times_ms = [10_000 * batch + at for batch in range(6) for at in range(0, 10_000, 40)]
    rows = [
        {
            "user": f"u{chance.randrange(25)}" if chance.random() < 0.95 else None,
            "at": BEGIN + timedelta(milliseconds=t_ms),
            "note": chance.choice(["a", "b", None]),
        }
        for t_ms in times_ms
    ]
    batches = [rows[at : at + 250] for at in range(0, len(rows), 250)]
    for batch in batches[2:]:
        batch += [row | {"at": row["at"] - timedelta(seconds=9)} for row in batch[7::50]]
    return batches


def milliseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def played(batches: list[list[dict[str, Any]]], rule: Rule, keep: str) -> Played:
    records = [
        [Record((row["user"],), milliseconds(row["at"]), row) for row in batch] for batch in batches
    ]
    reference = DeduplicationReference(rule, ["at", "note"], keep)
    return play(records, rule, {}, delay_ms=DELAY_MS, reference=reference)


def deduplicated(events: DataFrame, keep: str, policy: Policy, **more: Any) -> DataFrame:
    return deduplicate(
        events, key="user", uid=UID, event_time="at", keep=keep, delay="3s", policy=policy, **more
    )


def assert_equal(expected: Played, rows: list[Found], keep: str) -> None:
    assert isinstance(expected.reference, DeduplicationReference)
    assert_rows(expected.reference.rows(), rows, dict.fromkeys(["at", "note"], keep))


class Query:
    """A query over all batches, some at a time."""

    def __init__(
        self, spark: SparkSession, folder: Path, keep: str, rule: Rule, backend: str = "spark"
    ) -> None:
        self.spark, self.keep, self.rule, self.backend = spark, keep, rule, backend
        self.checkpoint = folder / "checkpoint"
        self.feed = Feed(folder / "input", SCHEMA)
        self.sink = Sink()
        self.to_come = make_batches()
        self.expected = played(self.to_come, rule, keep)

    def changes(self) -> DataFrame:
        events, policy = self.feed.stream(self.spark), policy_of(self.rule)
        return deduplicated(events, self.keep, policy, rejects=True, backend=self.backend)

    def read(self, batches: int) -> None:
        """So many batches more, then a stop."""
        self.add(batches)
        run(self.changes(), self.checkpoint, self.sink)
        stop_private_sidecars()

    def read_rest(self) -> None:
        self.add(len(self.to_come))
        run_to_end(lambda: start(self.changes(), self.checkpoint, self.sink, availableNow=True))

    def add(self, batches: int) -> None:
        for batch in self.to_come[:batches]:
            self.feed.add(batch)
        del self.to_come[:batches]

    def assert_as_the_reference(self) -> None:
        """Rows that came out, late rows, and the keys that are left."""
        found = plain_rows(self.sink.table, ["user"])
        rows = [row for row in found if row["change"] != "reject"]
        assert_equal(self.expected, rows, self.keep)
        late = [json.loads(row["rejected"]) for row in found if row["change"] == "reject"]
        assert sorted(row["at"] for row in late) == sorted(
            record.values["at"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
            for record in self.expected.late
        )
        assert self.expected.late
        state = read_state(self.spark, str(self.checkpoint))
        lives = self.expected.reference.lives
        assert sorted(row["user"] or "" for row in state.collect()) == sorted(
            key or "" for (key,) in lives
        )


@pytest.mark.parametrize(("keep", "backend", "rule"), CASES)
def test_rows_equal_those_of_the_reference_over_restarts(
    spark: SparkSession, tmp_path: Path, keep: str, backend: str, rule: Rule
) -> None:
    query = Query(spark, tmp_path, keep, rule, backend)
    query.read(2)
    query.read(2)
    query.read_rest()
    query.assert_as_the_reference()


@LONG
@pytest.mark.parametrize(("keep", "rule"), [("first", QUIET), ("last", BLOCKING)])
def test_what_a_rollback_undoes_comes_again(
    spark: SparkSession, tmp_path: Path, keep: str, rule: Rule
) -> None:
    query = Query(spark, tmp_path, keep, rule)
    query.read(4)
    undone = {number: query.sink.batches.pop(number) for number in (2, 3, 4)}
    roll_back(spark, str(query.checkpoint), 1)
    query.read(0)
    for number, rows in undone.items():
        assert counted(query.sink.batches[number].to_pylist()) == counted(rows.to_pylist()), number
    query.read_rest()
    query.assert_as_the_reference()


@LONG
@needs_repartition
@pytest.mark.parametrize(("keep", "rule"), [("first", QUIET), ("last", BLOCKING)])
def test_a_query_goes_on_over_other_partitions(
    spark: SparkSession, tmp_path: Path, keep: str, rule: Rule
) -> None:
    query = Query(spark, tmp_path, keep, rule)
    for partitions in (8, 1):
        query.read(2)
        repartition(spark, str(query.checkpoint), partitions)
        layout = read_layout(Folder(str(query.checkpoint)), UID)
        assert layout.state_partitions == partitions
    query.read_rest()
    query.assert_as_the_reference()


@pytest.mark.parametrize("keep", [pytest.param("first", marks=pytest.mark.long), "last"])
def test_a_batch_data_frame_is_one_batch(spark: SparkSession, tmp_path: Path, keep: str) -> None:
    feed = Feed(tmp_path / "input", SCHEMA)
    feed.add(make_batches()[0])
    changes = deduplicated(feed.table(spark), keep, policy_of(BLOCKING))
    assert changes.columns[:4] == ["user", "at", "note", "change"]
    rows = plain_rows(changes.toArrow(), ["user"])
    assert_equal(played([make_batches()[0]], BLOCKING, keep), rows, keep)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"keep": "newest"}, "keep 'newest' is not valid; pass 'first' or 'last'"),
        ({"key": "tags"}, "column tags not found, or not of a simple type"),
        ({}, "column tags is of type array<string>, and records are compared by all"),
    ],
)
def test_what_does_not_fit_is_refused(spark: SparkSession, more: dict[str, Any], said: str) -> None:
    events = spark.range(1).select(
        F.col("id").alias("user"),
        F.current_timestamp().alias("at"),
        F.array(F.lit("a")).alias("tags"),
    )
    with pytest.raises(RefusedError, match=said.replace("<", ".")):
        deduplicate(events, **({"key": "user", "uid": UID, "event_time": "at"} | more))


def test_the_column_of_malformed_rows_does_not_come_out(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [("a", BEGIN, None), ("a", BEGIN + timedelta(seconds=1), None), ("b", BEGIN, "{")],
        "user string, at timestamp, broken string",
    )
    changes = deduplicated(events, "first", Policy(ttl_ms=5_000), malformed="broken", rejects=True)
    assert changes.columns[:3] == ["user", "at", "change"]
    assert sorted((row["user"], row["change"]) for row in changes.collect() if row["user"]) == [
        ("a", "update")
    ]

"""Queries that go on with other aggregates than their state was kept with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import Policy
from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import committed_batch
from idlestate.pipeline.checkpoint.repartition import repartition
from idlestate.pipeline.checkpoint.rollback import roll_back
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from tests.pipeline.clicks import AGGREGATES, KEYS, SCHEMA, UID, click, retained
from tests.pipeline.streams import Feed, Found, Sink, forget, run, start, states
from tests.spark_versions import needs_repartition

LONG = Policy(idle_min_ms=30 * 86_400_000, idle_max_ms=45 * 86_400_000)
"""No life ends, so that every state is one sum over the rows of its key."""
FIRST = [click("a", 0, 1), click("b", 1, 2), click("gone", 2, 5)]
SECOND = [click("a", 10, 10), click("new", 11, 7)]
CHANGED = {"clicks": "count", "total": "sum(amount)", "top": "max(amount)", "seen": "count(page)"}
"""`n` is called `clicks`, `page` is dropped, `amount` has become a bigint, the last two are new."""

OLD = [
    ("a", {"n": 1, "total": 1, "page": "a-0"}),
    ("b", {"n": 1, "total": 2, "page": "b-1"}),
    ("gone", {"n": 1, "total": 5, "page": "gone-2"}),
]
NEW = [
    ("a", {"clicks": 2, "total": 11, "top": 10, "seen": 1}),
    ("b", {"clicks": 1, "total": 2, "top": None, "seen": 0}),
    ("gone", {"clicks": 1, "total": 5, "top": None, "seen": 0}),
    ("new", {"clicks": 1, "total": 7, "top": 7, "seen": 1}),
]
UNCHANGED = [
    ("a", {"n": 2, "total": 11, "page": "a-10"}),
    *OLD[1:],
    ("new", {"n": 1, "total": 7, "page": "new-11"}),
]


class BrokenSink(Sink):
    """A program that dies after the batch was computed and before it was committed."""

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        super().__call__(frame, batch_id)
        raise RuntimeError("killed")


class Query:
    """A query that has read `FIRST` with the old aggregates."""

    def __init__(self, spark: SparkSession, folder: Path, **where: Any) -> None:
        self.spark, self.where = spark, where
        self.checkpoint = folder / "checkpoint"
        self.feed = Feed(folder / "input", SCHEMA)
        self.feed.add(FIRST)
        self.run(changed=False)
        self.first = self.newest

    @property
    def newest(self) -> int:
        return committed_batch(Folder(str(self.checkpoint)))

    def changes(self, *, changed: bool) -> DataFrame:
        events = self.feed.stream(self.spark)
        if not changed:
            return retained(events, policy=LONG, **self.where)
        events = events.withColumn("amount", F.col("amount").cast("bigint"))
        renamed = {"clicks": "n"}
        return retained(events, aggregates=CHANGED, renamed=renamed, policy=LONG, **self.where)

    def run(self, *, changed: bool) -> None:
        run(self.changes(changed=changed), self.checkpoint)

    def die(self, *, changed: bool) -> None:
        """Run up to the commit of the next batch."""
        with pytest.raises(StreamingQueryException, match="killed"):
            start(
                self.changes(changed=changed), self.checkpoint, BrokenSink(), availableNow=True
            ).awaitTermination()

    def states(self, **which: Any) -> list[tuple[str, Found]]:
        names = {*AGGREGATES, *CHANGED}
        found = states(self.spark, self.checkpoint, KEYS, **which)
        return sorted(
            (row["key"][0], {name: row[name] for name in row if name in names}) for row in found
        )


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Query:
    return Query(spark, tmp_path)


def test_state_goes_on_with_other_aggregates(query: Query) -> None:
    assert query.states() == OLD
    query.feed.add(SECOND)
    query.run(changed=True)
    assert query.states() == NEW
    query.run(changed=True)  # `renamed` may stay
    assert query.states() == NEW


@pytest.mark.long
def test_older_batches_are_read_as_they_were(query: Query) -> None:
    query.feed.add(SECOND)
    query.run(changed=True)
    assert query.states(batch_id=query.first) == OLD
    assert query.states(batch_id=query.first + 1) == NEW


def test_a_rollback_over_the_change_takes_it_back(query: Query, spark: SparkSession) -> None:
    query.feed.add(SECOND)
    query.run(changed=True)
    roll_back(spark, str(query.checkpoint), query.first)
    assert query.states() == OLD
    query.run(changed=False)
    assert query.states() == UNCHANGED


@pytest.mark.long
def test_a_rollback_over_the_change_and_the_change_again(query: Query, spark: SparkSession) -> None:
    query.feed.add(SECOND)
    query.run(changed=True)
    roll_back(spark, str(query.checkpoint), query.first)
    query.run(changed=True)
    assert query.states() == NEW
    kept = read_layout(Folder(str(query.checkpoint)), UID).definitions
    assert [each.batch_id for each in kept] == [0, query.first + 1]


@pytest.mark.parametrize("changed", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_kill_in_the_first_batch_leaves_both_ways_open(query: Query, changed: bool) -> None:
    """The batch was computed with the new aggregates; whichever commits it finds all state."""
    query.feed.add(SECOND)
    query.die(changed=True)
    assert query.states() == OLD
    query.run(changed=changed)
    assert query.states() == (NEW if changed else UNCHANGED)


@pytest.mark.long
@needs_repartition
def test_a_repartition_after_the_change_and_before_its_first_batch(
    query: Query, spark: SparkSession
) -> None:
    """The batch of the repartition goes by what the state was kept with."""
    checkpoint = Folder(str(query.checkpoint))
    query.feed.add(SECOND)
    query.die(changed=True)
    forget(query.checkpoint / "offsets", query.first + 1)  # as if it had died before it planned
    assert len(read_layout(checkpoint, UID).definitions) == 2
    repartition(spark, str(query.checkpoint), 1)
    assert query.states() == OLD
    query.run(changed=True)
    assert query.states() == NEW
    repartition(spark, str(query.checkpoint), 4)
    assert query.states() == NEW
    query.run(changed=True)
    assert query.states() == NEW


@pytest.fixture
def no_sidecars_left() -> Iterator[None]:
    yield
    stop_private_sidecars()


@pytest.mark.long
@pytest.mark.usefixtures("no_sidecars_left")
@pytest.mark.parametrize("backend", [pytest.param("heap", marks=pytest.mark.variant), "rocksdb"])
def test_a_sidecar_goes_on_with_other_aggregates_after_a_kill(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    query = Query(spark, tmp_path, backend=backend)
    assert query.states() == OLD
    query.feed.add(SECOND)
    query.die(changed=True)
    stop_private_sidecars()
    query.run(changed=True)
    assert query.states() == NEW
    query.run(changed=True)
    assert query.states() == NEW

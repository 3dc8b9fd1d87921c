"""Processing time: a query equals the reference fed with the batch times of its own offset log."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from idlestate import Policy, retain
from idlestate.retention.policy import TimeDomain, UpdateType
from tests.compare import assert_rows, assert_states
from tests.pipeline.streams import (
    Feed,
    Sink,
    batch_times_ms,
    counted,
    forget,
    last_rows,
    plain_rows,
    run,
    shards,
    start,
    states,
)
from tests.reference import FOREVER_MS, ON_READ_AND_WRITE, Record, Rule
from tests.reference_pipeline import Played, play

UID = "processing"
SCHEMA = pa.schema(
    [("user", pa.string()), ("amount", pa.int64()), ("seq", pa.int32()), ("looks", pa.bool_())]
)
AGGREGATES = {
    "n": "count",
    "total": "sum(amount)",
    "first": "first(amount)",
    "last": "last(amount)",
    "high": "max(amount)",
}
# Windows about as long as a batch takes: what ends when differs from run to run, and must not
# differ from the reference in any. The last one ends every life at each batch that follows it.
RULES = {
    "like-batches": Rule(
        idle_min_ms=500,
        idle_max_ms=800,
        update=ON_READ_AND_WRITE,
        ttl_ms=1500,
        max_lifetime_ms=3000,
        remember_ms=FOREVER_MS,
    ),
    "at-once": Rule(idle_min_ms=2, idle_max_ms=3, remember_ms=FOREVER_MS),
}
RULE_PARAMS = [pytest.param("like-batches", marks=pytest.mark.long), "at-once"]


def policy_of(rule: Rule) -> Policy:
    return Policy(
        idle_min_ms=rule.idle_min_ms,
        idle_max_ms=rule.idle_max_ms,
        update=UpdateType(rule.update),
        ttl_ms=rule.ttl_ms,
        max_lifetime_ms=rule.max_lifetime_ms,
        remember_ms=rule.remember_ms,
        time=TimeDomain.PROCESSING,
        min_gap_ms=0,
    )


def make_batches(count: int, seed: int) -> list[list[dict[str, Any]]]:
    chance = random.Random(seed)
    return [
        [
            {
                "user": chance.choice(["a", "b", "c", None]),
                "amount": chance.choice([None, -2, 1, 5]),
                "seq": chance.choice([None, 1, 2]),
                "looks": chance.choice([True, False, False, None]),
            }
            for _ in range(chance.randint(4, 9))
        ]
        for _ in range(count)
    ]


def retained(events: DataFrame, rule: Rule, **where: Any) -> DataFrame:
    return retain(
        events,
        key="user",
        aggregates=AGGREGATES,
        policy=policy_of(rule),
        order=["seq"],
        read_when="looks",
        uid=UID,
        **where,
    )


def played(batches: list[list[dict[str, Any]]], times_ms: list[int], rule: Rule) -> Played:
    records = [
        [
            Record((row["user"],), None, row, read=bool(row["looks"]), order=(row["seq"],))
            for row in batch
        ]
        for batch in batches
    ]
    return play(records, rule, AGGREGATES, batch_times_ms=times_ms, processing_time=True)


@pytest.mark.parametrize("name", RULE_PARAMS)
def test_a_query_equals_the_reference_at_its_own_times(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    rule, batches = RULES[name], make_batches(5, seed=len(name))
    feed, checkpoint, sink = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint", Sink()
    for batch in batches[:3]:
        feed.add(batch)
    query = start(
        retained(feed.stream(spark), rule), checkpoint, sink, processingTime="100 milliseconds"
    )
    query.processAllAvailable()
    query.stop()
    for batch in batches[3:]:
        feed.add(batch)
    run(retained(feed.stream(spark), rule), checkpoint, sink)

    times_ms = batch_times_ms(checkpoint)
    assert len(times_ms) == len(batches), "batches without data are none of processing time's"
    expected = played(batches, times_ms, rule).reference
    assert_rows(expected.last_rows(), last_rows(plain_rows(sink.table, ["user"])), AGGREGATES)
    assert_states(expected.states(), states(spark, checkpoint, ["user"]), AGGREGATES)
    tallies = [shard.tally for shard in shards(spark, checkpoint, UID)]
    assert sum(tally.created for tally in tallies) == expected.counts["created"]
    assert sum(tally.returning_keys for tally in tallies) == expected.counts["returning_keys"]
    if name == "at-once":
        assert expected.counts["returning_keys"] > 0


def test_a_batch_frame_is_one_batch_at_one_time(spark: SparkSession, tmp_path: Path) -> None:
    """All rows are of one moment, and nothing is due at it."""
    (batch,) = make_batches(1, seed=9)
    feed = Feed(tmp_path / "input", SCHEMA)
    feed.add(batch)
    rows = plain_rows(retained(feed.table(spark), RULES["like-batches"]).toArrow(), ["user"])
    times_ms = {row["created_at"] for row in rows if row["created_at"] is not None}
    (t_ms,) = times_ms
    expected = played([batch], [t_ms], RULES["like-batches"]).reference
    assert_rows(expected.last_rows(), last_rows(rows), AGGREGATES)


def test_a_batch_that_runs_again_says_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """The batch's time is journaled: a second attempt does not look at the clock."""
    feed, checkpoint, sink = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint", Sink()
    for batch in make_batches(2, seed=3):
        feed.add(batch)
    run(retained(feed.stream(spark), RULES["at-once"]), checkpoint, sink)
    first = sink.batches.pop(1)
    assert "expire" in first.column("change").to_pylist()
    forget(checkpoint / "commits", 1)
    run(retained(feed.stream(spark), RULES["at-once"]), checkpoint, sink)
    assert counted(sink.batches[1].to_pylist()) == counted(first.to_pylist())

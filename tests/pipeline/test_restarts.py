"""Restarts that change something, several operators and queries, and input out of order."""

import random
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from idlestate import Policy, configure
from idlestate.errors import RefusedError
from idlestate.metrics.newest_shard_reports import reports_in
from idlestate.retention.policy import FOREVER_MS
from tests.compare import assert_rows, assert_states
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
from tests.pipeline.streams import (
    Feed,
    Found,
    Sink,
    counted,
    forget,
    last_rows,
    plain_rows,
    run,
    shards,
    start,
    states,
)
from tests.reference import Record, Rule
from tests.reference_pipeline import play

DELAY_MS = 10 * MINUTE_MS


def batches_as_run(sink: Sink, batches: list[list[Found]]) -> list[list[Record]]:
    """The records of every batch that ran; one that gave no update had no data."""
    left = iter(batches)
    found = []
    for number in sorted(sink.batches):
        has_data = "update" in sink.batches[number].column("change").to_pylist()
        found.append([record(row) for row in next(left)] if has_data else [])
    assert not list(left)
    return found


def test_a_first_start_that_died_in_the_middle_of_its_plan(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark takes the rest of it in its log for another query's."""
    feed, checkpoint = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint"
    feed.add(hours(0, 1)[0])
    rest = checkpoint / "offsets" / f".0.{uuid.uuid4()}.tmp"
    rest.parent.mkdir(parents=True)
    for name in (rest.name, f".{rest.name}.crc"):
        rest.with_name(name).write_bytes(b"v1\n{")
    sink = run(retained(feed.stream(spark)), checkpoint)
    assert sink.table.num_rows
    assert not rest.exists()


@pytest.mark.long
@pytest.mark.parametrize("planned", [0, 2])
def test_files_that_were_noted_and_not_planned_come_in_batches_of_the_usual_size(
    spark: SparkSession, tmp_path: Path, planned: int
) -> None:
    """A file source notes files before Spark plans their batch; a driver can die in between."""
    feed, checkpoint = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint"
    for batch in hours(0, 4):
        feed.add(batch)
    sink = run(retained(feed.stream(spark)), checkpoint)
    before = {number: counted(table.to_pylist()) for number, table in sink.batches.items()}
    if planned == 0:
        for folder in ("offsets", "commits", "state", "idlestate"):
            shutil.rmtree(checkpoint / folder)
    else:
        forget(checkpoint / "offsets", planned)
        forget(checkpoint / "commits", planned)
    run(retained(feed.stream(spark)), checkpoint, sink)
    assert {number: counted(table.to_pylist()) for number, table in sink.batches.items()} == before


@pytest.mark.long
def test_a_new_policy_holds_from_the_restart_on(spark: SparkSession, tmp_path: Path) -> None:
    """Both ways: lives go sooner than the old policy said, or later."""
    batches = hours(0, 6)
    feed, checkpoint, sink = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint", Sink()
    rules = [
        RULE,
        Rule(idle_min_ms=90 * MINUTE_MS, idle_max_ms=200 * MINUTE_MS, remember_ms=RULE.remember_ms),
        Rule(idle_min_ms=5 * MINUTE_MS, idle_max_ms=9 * MINUTE_MS, remember_ms=RULE.remember_ms),
    ]
    changes_at = {}
    for at, rule in enumerate(rules):
        for batch in batches[2 * at : 2 * at + 2]:
            feed.add(batch)
        changes_at[len(sink.batches)] = rule
        policy = Policy(
            idle_min_ms=rule.idle_min_ms,
            idle_max_ms=rule.idle_max_ms,
            remember_ms=rule.remember_ms,
            min_gap_ms=0,
            max_shrink=1,
        )
        run(retained(feed.stream(spark), policy=policy), checkpoint, sink)
    played = play(
        batches_as_run(sink, batches), RULE, AGGREGATES, delay_ms=DELAY_MS, rules=changes_at
    )
    expected = played.reference
    assert {row.expired_at - row.last_access for row in expected.expired if row.expired_at} > {
        9 * MINUTE_MS
    }
    assert_rows(expected.last_rows(), last_rows(plain_rows(sink.table, KEYS)), AGGREGATES)
    assert_states(expected.states(), states(spark, checkpoint, KEYS), AGGREGATES)


def test_input_out_of_order_equals_the_batches_as_they_came(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Older records in later batches, and late ones: outside the law, inside the reference."""
    chance = random.Random(11)
    batches = [
        [
            click(chance.choice("abcd"), 25 * at - chance.choice([0, 3, 9, 15, 40]), amount=at)
            for _ in range(15)
        ]
        for at in range(6)
    ]
    feed, checkpoint, sink = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint", Sink()
    for batch in batches:
        feed.add(batch)
    run(retained(feed.stream(spark)), checkpoint, sink)
    records = [[record(row) for row in batch] for batch in batches]
    played = play(records, RULE, AGGREGATES, delay_ms=DELAY_MS)
    assert played.late
    assert_rows(played.reference.last_rows(), last_rows(plain_rows(sink.table, KEYS)), AGGREGATES)
    assert_states(played.reference.states(), states(spark, checkpoint, KEYS), AGGREGATES)
    counts = [shard.rows for shard in shards(spark, checkpoint, "clicks")]
    assert sum(each.late for each in counts) == len(played.late)
    assert sum(each.input for each in counts) == sum(map(len, batches))


def test_two_operators_in_one_query_keep_apart(spark: SparkSession, tmp_path: Path) -> None:
    batches = hours(0, 3)
    feed, checkpoint, sink = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint", Sink()
    for batch in batches:
        feed.add(batch)
    by_user = retained(feed.stream(spark), uid="by-user")
    by_page = retained(
        feed.stream(spark).selectExpr("page as user", "event_time", "amount", "user as page"),
        uid="by-page",
    )
    run(by_user.union(by_page), checkpoint, sink)

    records = [[record(row) for row in batch] for batch in batches]
    swapped = [
        [{**row, "user": row["page"], "page": row["user"]} for row in batch] for batch in batches
    ]
    expected = {
        "by-user": play(records, RULE, AGGREGATES, delay_ms=DELAY_MS).reference,
        "by-page": play(
            [[record(row) for row in batch] for batch in swapped],
            RULE,
            AGGREGATES,
            delay_ms=DELAY_MS,
        ).reference,
    }
    for uid, reference in expected.items():
        found = states(spark, checkpoint, KEYS, uid=uid)
        assert_states(reference.states(), found, AGGREGATES)
        created = sum(shard.tally.created for shard in shards(spark, checkpoint, uid))
        assert created == reference.counts["created"]
    rows = last_rows(plain_rows(sink.table, KEYS))
    everything = [row for reference in expected.values() for row in reference.last_rows()]
    assert_rows(everything, rows, AGGREGATES)
    with pytest.raises(RefusedError, match=r"holds 2 operators \(by-page, by-user\); pass the uid"):
        states(spark, checkpoint, KEYS)


@pytest.mark.long
def test_two_queries_of_one_session_run_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "input", SCHEMA)
    for batch in hours(0, 2):
        feed.add(batch)
    changes = retained(feed.stream(spark))
    sinks, places = [Sink(), Sink()], [tmp_path / "one", tmp_path / "two"]
    queries = [
        start(changes, place, sink, availableNow=True)
        for place, sink in zip(places, sinks, strict=True)
    ]
    for query in queries:
        query.awaitTermination()
    for query, place in zip(queries, places, strict=True):
        assert_reports_equal_the_state(spark, query, place)
    one, two = (sorted(states(spark, place, KEYS), key=repr) for place in places)
    assert one == two
    assert one
    rows = [sorted(last_rows(plain_rows(sink.table, KEYS)), key=repr) for sink in sinks]
    assert rows[0] == rows[1]


def assert_reports_equal_the_state(spark: SparkSession, query: Any, checkpoint: Path) -> None:
    """What a query tells of its shards in its last progress is what they hold."""
    progress = query.lastProgress
    reports = reports_in(progress, "clicks")
    assert reports
    kept = {shard.shard: shard for shard in shards(spark, checkpoint, "clicks")}
    for report in reports:
        state = kept[report.shard]
        assert report.batch_id == progress["batchId"]
        assert report.live_keys == state.live_keys
        assert report.state_bytes == state.current.bytes
        assert report.remembered_keys == state.remembered.live
        assert report.created == state.tally.created
        assert report.returning_keys == state.tally.returning_keys == sum(report.absences)
        assert tuple(report.absences) == state.tally.absences
        assert report.expired_idle == state.tally.expired[2]
        assert report.input == state.rows.input
        assert report.keys_ever_seen == state.keys_ever_seen(Policy(remember_ms=FOREVER_MS))


def test_state_partitions_and_shards_are_those_of_the_first_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Whatever the session says later, here another session of the application."""
    feed, checkpoint, sink = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint", Sink()
    feed.add(hours(0, 1)[0])
    run(retained(feed.stream(spark)), checkpoint, sink)
    other = configure(spark.newSession())
    other.conf.set("spark.sql.shuffle.partitions", "5")
    feed.add(hours(1, 1)[0])
    run(retained(feed.stream(other)), checkpoint, sink)
    assert len(shards(other, checkpoint, "clicks")) == 8
    records = [[record(row) for row in batch] for batch in hours(0, 2)]
    expected = play(records, RULE, AGGREGATES, delay_ms=DELAY_MS).reference
    assert_states(expected.states(), states(spark, checkpoint, KEYS), AGGREGATES)

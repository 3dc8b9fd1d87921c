"""The law through Spark: tasks, shuffle, state store, restarts and reading back included."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from idlestate import retain
from tests.backends.law_runner import policy_of
from tests.compare import assert_rows, assert_states
from tests.pipeline.spark_cases import (
    BACKGROUND,
    CASES,
    PARAMS,
    SETTINGS,
    Setting,
    Stream,
    case_of,
    make_stream,
)
from tests.pipeline.streams import Feed, Sink, last_rows, plain_rows, run, shards, start, states

UID = "law"
SHARE = 0.2
EVERY = (*range(CASES), BACKGROUND)


class Ran:
    """A setting's stream, run with its restarts and read back."""

    def __init__(self, spark: SparkSession, stream: Stream, folder: Path) -> None:
        setting = stream.setting
        self.stream = stream
        self.feed = Feed(folder / "input", setting.schema)
        checkpoint, sink = folder / "checkpoint", Sink()
        self.batches: list[int] = []
        self.runs: list[int] = []
        """After each stretch, of the shard that has the most."""
        for stretch in stream.stretches:
            seen = len(sink.batches)
            for batch in stretch:
                self.feed.add(setting.rows(batch))
            if stretch is stream.stretches[-1]:
                run(retained(self.feed.stream(spark), setting), checkpoint, sink)
            else:
                query = start(retained(self.feed.stream(spark), setting), checkpoint, sink)
                query.processAllAvailable()
                query.stop()
            self.batches.append(len(sink.batches) - seen)
            self.shards = shards(spark, checkpoint, UID)
            self.runs.append(max(len(shard.current.runs) for shard in self.shards))
        self.rows = plain_rows(sink.table, setting.keys)
        self.states = states(spark, checkpoint, setting.keys)


def retained(events: DataFrame, setting: Setting) -> DataFrame:
    return retain(
        events,
        key=setting.keys,
        event_time="event_time",
        delay=f"{setting.delay_ms}ms",
        aggregates=setting.aggregates,
        policy=policy_of(setting.rule),
        order=setting.order,
        read_when="looks",
        uid=UID,
    )


def of_case(number: int, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if case_of(row["key"]) == number]


@pytest.fixture(scope="module", params=PARAMS)
def ran(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ran]:
    setting = request.param
    return Ran(spark, make_stream(setting), tmp_path_factory.mktemp(setting.name))


@pytest.mark.parametrize("case", EVERY)
def test_a_case_equals_the_reference(ran: Ran, case: int, spark: SparkSession) -> None:
    setting, reference = ran.stream.setting, ran.stream.reference(case)
    found = last_rows(of_case(case, ran.rows))
    assert_rows(reference.last_rows(), found, setting.aggregates)
    assert_states(reference.states(), of_case(case, ran.states), setting.aggregates)


def test_counts_in_the_state_equal_the_reference(ran: Ran, spark: SparkSession) -> None:
    expected: Counter[str] = Counter()
    for case in EVERY:
        expected.update(ran.stream.reference(case).counts)
    tallies = [shard.tally for shard in ran.shards]
    assert sum(tally.created for tally in tallies) == expected["created"]
    assert sum(tally.returning_keys for tally in tallies) == expected["returning_keys"]
    for at, reason in enumerate(("lifetime", "ttl", "idle")):
        assert sum(tally.expired[at] for tally in tallies) == expected[reason], reason
    records = sum(map(len, ran.stream.batches))
    assert sum(shard.rows.input for shard in ran.shards) == records
    assert sum(shard.rows.late for shard in ran.shards) == 0
    assert sum(shard.live_keys for shard in ran.shards) == len(ran.states)


def test_batches_were_cut_and_read_as_meant(ran: Ran, spark: SparkSession) -> None:
    setting = ran.stream.setting
    for found, stretch in zip(ran.batches, ran.stream.stretches, strict=True):
        assert found >= len(stretch)
    assert setting.batches >= 4
    first_batch = spark.read.parquet(*map(str, ran.feed.files[:3]))
    assert first_batch.rdd.getNumPartitions() == 3


def test_shards_were_made_of_several_runs_and_merged(ran: Ran, spark: SparkSession) -> None:
    if not ran.stream.setting.background:
        pytest.skip("all its keys fit into one run")
    assert max(ran.runs) >= 3
    assert any(after <= before for before, after in pairwise(ran.runs))


def test_one_batch_equals_the_reference(ran: Ran, spark: SparkSession) -> None:
    """The same rows as a batch DataFrame: the other extreme of cutting them."""
    setting = ran.stream.setting
    whole = Stream(setting, [[record for batch in ran.stream.batches for record in batch]])
    changes = retained(ran.feed.table(spark), setting).toArrow()
    found = last_rows(plain_rows(changes, setting.keys))
    for case in EVERY:
        expected = whole.reference(case).last_rows()
        assert_rows(expected, of_case(case, found), setting.aggregates)


def test_cases_turn_at_every_corner() -> None:
    counts = [
        stream.reference(case).counts
        for stream in map(make_stream, SETTINGS)
        for case in range(CASES)
    ]
    assert len(counts) >= 20
    for name in (
        "closed_in_its_batch",
        "returning_keys",
        "rearms",
        "skipped_rearms",
        "at_deadline",
    ):
        share = sum(each[name] > 0 for each in counts) / len(counts)
        assert share >= SHARE, f"only {share:.0%} of the cases contain {name}"

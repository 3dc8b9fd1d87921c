"""Batch DataFrames: odd names, other time zones, no rows, any number of shards."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import retain
from tests.compare import assert_rows
from tests.pipeline.clicks import (
    AGGREGATES,
    KEYS,
    MINUTE_MS,
    POLICY,
    RULE,
    SCHEMA,
    hours,
    record,
    retained,
)
from tests.pipeline.streams import Feed, last_rows, plain_rows
from tests.reference import Reference
from tests.reference_pipeline import play


@pytest.fixture(scope="module")
def feed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    found = Feed(tmp_path_factory.mktemp("frames") / "input", SCHEMA)
    for batch in hours(0, 4):
        found.add(batch)
    return found


@pytest.fixture(scope="module")
def expected() -> Reference:
    records = [record(row) for batch in hours(0, 4) for row in batch]
    return play([records], RULE, AGGREGATES, delay_ms=10 * MINUTE_MS).reference


@contextmanager
def time_zone(spark: SparkSession, name: str) -> Iterator[None]:
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize(
    "shards", [*(pytest.param(each, marks=pytest.mark.long) for each in (None, 1)), 3]
)
def test_any_number_of_shards_gives_the_same(
    spark: SparkSession, feed: Feed, expected: Reference, shards: int | None
) -> None:
    rows = plain_rows(retained(feed.table(spark), shards=shards).toArrow(), KEYS)
    assert_rows(expected.last_rows(), last_rows(rows), AGGREGATES)
    assert {row["batch_id"] for row in rows} == {0}


def test_times_are_instants_whatever_the_session_s_zone(
    spark: SparkSession, feed: Feed, expected: Reference
) -> None:
    """The zone shows in how people read times, also those that are keys or aggregates."""
    with time_zone(spark, "America/New_York"):
        changes = retained(
            feed.table(spark),
            key=["user", "event_time"],
            aggregates={"n": "count", "at": "max(event_time)"},
        )
        moments = ["event_time", "at", "created_at", "last_access"]
        found = changes.select(*(F.unix_micros(name).alias(name) for name in moments)).collect()
        assert all(len(set(row)) == 1 for row in found)
        micros = {row["event_time"] for row in found}
    rows = [row for batch in hours(0, 4) for row in batch]
    assert micros == {1000 * (record(row).t_ms or 0) for row in rows}


def test_event_times_without_a_zone_are_of_the_session_s(spark: SparkSession) -> None:
    text = "select 'a' as user, timestamp_ntz'2024-05-01 08:00:00' as t"
    with time_zone(spark, "America/New_York"):
        changes = retain(
            spark.sql(text),
            key="user",
            event_time="t",
            aggregates={"n": "count"},
            policy=POLICY,
            uid="u",
        )
        (row,) = changes.select(F.unix_seconds("created_at").alias("at")).collect()
    assert row["at"] == 1_714_564_800  # noon in UTC


def test_columns_may_have_any_name(spark: SparkSession) -> None:
    frame = spark.sql(
        "select 'a' as `user.name`, timestamp'2024-05-01' as `when, exactly`, 3 as `click time`"
    )
    changes = retain(
        frame,
        key="user.name",
        event_time="when, exactly",
        aggregates={"most clicks": "max(`click time`)", "é": "count"},
        policy=POLICY,
        order=["click time"],
        rejects=True,
        uid="u",
    )
    (row,) = changes.collect()
    assert (row["user.name"], row["most clicks"], row["é"]) == ("a", 3, 1)


def test_no_rows_give_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    nothing = Feed(tmp_path / "input", SCHEMA)
    nothing.add([])
    changes = retained(nothing.table(spark))
    assert changes.collect() == []
    assert changes.columns == [
        *("user", "n", "total", "page", "change", "created_at", "last_access"),
        *("expired_at", "reason", "batch_id"),
    ]

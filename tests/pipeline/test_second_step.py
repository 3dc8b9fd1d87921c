"""An operator behind another one in the same query."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from idlestate import Policy, TimeDomain, join_asof, read_state, retain, run_to_end
from idlestate.errors import RefusedError
from tests.pipeline.clicks import EPOCH, MINUTE_MS
from tests.pipeline.streams import (
    TIMESTAMP,
    Feed,
    Found,
    Sink,
    forget,
    last_rows,
    plain_rows,
    start,
)
from tests.pipeline.test_join_asof import moment
from tests.reference import Record, Reference, Rule

CLICKS = pa.schema([("id", pa.string()), ("event_time", TIMESTAMP)])
HOUR = 60
UIDS = "visits", "habits"


def visits(clicks: DataFrame, **changed: Any) -> DataFrame:
    arguments: dict[str, Any] = {
        "key": "id",
        "event_time": "event_time",
        "delay": "10m",
        "aggregates": {"clicks": "count"},
        "policy": Policy(idle_min="30m", idle_max="30m", min_gap="0s"),
        "uid": "visits",
    }
    return retain(clicks, **(arguments | changed))


def habits(ended: DataFrame, **changed: Any) -> DataFrame:
    arguments: dict[str, Any] = {
        "key": "id",
        "event_time": "expired_at",
        "aggregates": {"visits": "count", "most": "max(clicks)"},
        "policy": Policy(ttl="2h"),
        "uid": "habits",
    }
    return retain(ended.where("change = 'expire'"), **(arguments | changed))


def made() -> list[list[Found]]:
    """Clicks of two days, up to 10 minutes out of order, in two batches."""
    chance = random.Random(4)
    minutes = [chance.randrange(48 * HOUR) for _ in range(240)]
    minutes.sort(key=lambda minute: minute + chance.uniform(0, 9))
    rows = [{"id": chance.choice("abc"), "event_time": moment(minute)} for minute in minutes]
    return [rows[at : at + 120] for at in range(0, 240, 120)]


def expected(ended: list[Found], upto_ms: int) -> Counter[Any]:
    aggregates = {"visits": "count", "most": "max(clicks)"}
    reference = Reference(Rule(ttl_ms=120 * MINUTE_MS), aggregates)
    for row in sorted(ended, key=lambda row: row["expired_at"]):
        reference.take(Record(row["key"], row["expired_at"], {"clicks": row["clicks"]}))
    reference.sweep(upto_ms)
    return Counter(
        (row.key, row.created_at, row.change, row.aggregates["visits"], row.aggregates["most"])
        for row in reference.last_rows()
    )


def counted(table: pa.Table) -> Counter[Any]:
    return Counter(
        (row["key"], row["created_at"], row["change"], row["visits"], row["most"])
        for row in last_rows(plain_rows(table, ["id"]))
    )


def test_it_takes_what_the_first_one_ends_exactly_once(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "clicks", CLICKS, 1)
    for batch in made():
        feed.add(batch)
    checkpoint, sink = tmp_path / "both", Sink()

    def started() -> StreamingQuery:
        changes = habits(visits(feed.stream(spark)))
        return start(changes, checkpoint, sink, availableNow=True)

    run_to_end(started)
    before = dict(sink.batches)
    forget(checkpoint / "commits", max(before))  # it runs again
    run_to_end(started)
    assert sink.batches == before

    alone = Sink()
    feed.files_per_batch = len(feed.files)
    run_to_end(
        lambda: start(visits(feed.stream(spark)), tmp_path / "one", alone, availableNow=True)
    )
    ended = [row for row in plain_rows(alone.table, ["id"]) if row["change"] == "expire"]
    newest_ms = max(_ms(row["event_time"]) for batch in made() for row in batch)
    assert counted(sink.table) == expected(ended, newest_ms - 10 * MINUTE_MS - 1)
    assert {row[2] for row in counted(sink.table)} == {"update", "expire"}
    with_uid = {uid: read_state(spark, str(checkpoint), uid=uid).columns for uid in UIDS}
    assert [set(with_uid[uid]) & {"clicks", "visits"} for uid in UIDS] == [{"clicks"}, {"visits"}]


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ({}, {"delay": "5m"}, "remove delay here, and set it there"),
        ({"backend": "heap"}, {}, "both need backend='spark'"),
        ({}, {"backend": "heap"}, "both need backend='spark'"),
        ({}, {"policy": Policy(ttl="2h", time=TimeDomain.PROCESSING)}, "both need event time"),
    ],
)
def test_what_spark_cannot_run_in_one_query_is_refused(
    spark: SparkSession, tmp_path: Path, first: Found, second: Found, says: str
) -> None:
    clicks = Feed(tmp_path / "clicks", CLICKS, 1).stream(spark)
    with pytest.raises(RefusedError, match=f"operator 'habits': .*'visits'.*{says}") as raised:
        habits(visits(clicks, **first), **second)
    assert "delay" in says or "second query, as docs/two-steps.md" in str(raised.value)


def test_other_inputs_beside_the_first_operator_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    clicks = Feed(tmp_path / "clicks", CLICKS, 1).stream(spark)
    ended = visits(clicks)
    with pytest.raises(RefusedError, match="may not be united or joined"):
        habits(ended.union(visits(clicks, uid="others")))
    with pytest.raises(RefusedError, match="an operator with two inputs cannot follow"):
        join_asof(
            clicks,
            ended,
            on="id",
            event_time="event_time",
            version_event_time="expired_at",
            uid="joined",
        )
    with pytest.raises(RefusedError, match="the input has a watermark already"):
        visits(clicks.withWatermark("event_time", "1 minute"))


def _ms(at: Any) -> int:
    return int((at - EPOCH).total_seconds() * 1000)

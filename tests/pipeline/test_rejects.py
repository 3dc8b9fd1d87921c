"""Rows that touch nothing: counted by reason, and on request handed on as JSON."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from idlestate import Policy, retain
from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from idlestate.timers.clock import SystemClock
from tests.pipeline.streams import TIMESTAMP, Feed, batch_times_ms, run, shards, states

UID = "rejects"
MINUTE = timedelta(minutes=1)
AT = datetime(2024, 5, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("user", pa.string()),
        ("event_time", TIMESTAMP),
        ("note", pa.string()),
        ("price", pa.decimal128(8, 2)),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("ratio", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("broken", pa.string()),
    ]
)
POLICY = Policy(idle_min_ms=600_000, idle_max_ms=900_000)


def row(user: str | None, event_time: datetime | None, **more: Any) -> dict[str, Any]:
    return dict.fromkeys(SCHEMA.names) | {"user": user, "event_time": event_time} | more


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAR_AHEAD = datetime(2900, 1, 1, tzinfo=UTC)
FIRST = [
    row("a", AT),
    row("b", AT + 5 * MINUTE),
    row("null", None, note="no time"),
    row("old", datetime(1970, 1, 1, 23, 59, 59, 999999, tzinfo=UTC)),
    row("ahead", FAR_AHEAD, price=Decimal("1.50"), day=date(2024, 5, 1), raw=b"\x00\xff"),
    row("broken", AT, broken="{oops", ratio=0.5, tags=["x", None], note='é\U0001f600"\n'),
    # Malformed wins: what else is wrong with the row is not known.
    row("broken", None, broken="{"),
]
# The highest time of the first batch is 12:05, the delay a minute: 12:04 is the last that counts.
SECOND = [
    row("a", AT + 4 * MINUTE, note="just in time"),
    row("a", AT + 4 * MINUTE - timedelta(milliseconds=1), note="late"),
    row(None, AT, note="late"),
    row("c", AT + 6 * MINUTE),
    row(None, None, note="no key, no time"),
]
EXPECTED = {
    "malformed": 2,
    "null_time": 2,
    "too_old": 1,
    "too_far_ahead": 1,
    "late": 2,
}


def retained(events: DataFrame, **more: Any) -> DataFrame:
    return retain(
        events,
        key="user",
        event_time="event_time",
        delay="1m",
        aggregates={"n": "count", "last": "max(event_time)"},
        policy=POLICY,
        malformed="broken",
        uid=UID,
        **more,
    )


def test_rows_that_touch_nothing_come_out_with_their_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed, checkpoint = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint"
    feed.add(FIRST)
    feed.add(SECOND)
    changes = retained(feed.stream(spark), rejects=True)
    assert changes.columns[-1] == "rejected"
    table = run(changes, checkpoint).table.to_pylist()

    rejects = [each for each in table if each["change"] == "reject"]
    assert Counter(each["reason"] for each in rejects) == EXPECTED
    nulls = set(changes.columns) - {"change", "reason", "rejected", "batch_id"}
    assert all(each[name] is None for each in rejects for name in nulls)
    assert all(each["rejected"] is None for each in table if each["change"] != "reject")
    found = [(each["batch_id"], each["reason"], json.loads(each["rejected"])) for each in rejects]
    assert all(set(content) == set(SCHEMA.names) for _, _, content in found)
    blank = dict.fromkeys(SCHEMA.names)
    assert sorted(
        (batch, reason, content["note"]) for batch, reason, content in found if content["note"]
    ) == [
        (0, "malformed", 'é\U0001f600"\n'),
        (0, "null_time", "no time"),
        (1, "late", "late"),
        (1, "late", "late"),
        (1, "null_time", "no key, no time"),
    ]
    (ahead,) = (content for _, reason, content in found if reason == "too_far_ahead")
    assert ahead == blank | {
        "user": "ahead",
        "event_time": "2900-01-01T00:00:00.000Z",
        "price": "1.50",
        "day": "2024-05-01",
        "raw": "00ff",
    }
    (old,) = (content for _, reason, content in found if reason == "too_old")
    assert old["event_time"] == "1970-01-01T23:59:59.999999Z"
    broken = next(content for _, _, content in found if content["broken"] == "{oops")
    assert (broken["ratio"], broken["tags"]) == (0.5, ["x", None])

    # None of them left a trace: not in the watermark, not in the state.
    open_lives = {each["key"][0]: each["n"] for each in states(spark, checkpoint, ["user"])}
    assert open_lives == {"a": 2, "b": 1, "c": 1}
    counts = [shard.rows for shard in shards(spark, checkpoint, UID)]
    assert sum(each.input for each in counts) == len(FIRST) + len(SECOND)
    for reason, count in EXPECTED.items():
        assert sum(getattr(each, reason) for each in counts) == count, reason


def test_they_stay_away_unless_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "input", SCHEMA)
    feed.add(FIRST)
    changes = retained(feed.table(spark))
    assert "rejected" not in changes.columns
    assert [each.user for each in changes.sort("user").collect()] == ["a", "b"]


@pytest.mark.long
def test_a_batch_without_one_usable_row_is_only_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed, checkpoint = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint"
    feed.add(FIRST[2:])
    feed.add([])
    feed.add(SECOND)
    sink = run(retained(feed.stream(spark), rejects=True), checkpoint)
    assert {each["change"] for each in sink.batches[0].to_pylist()} == {"reject"}
    # In the first batch with a time nothing is late, whatever came before it.
    later = [each for number in sink.batches if number for each in sink.batches[number].to_pylist()]
    assert Counter(each["reason"] for each in later if each["change"] == "reject") == {
        "null_time": 1
    }
    counts = [shard.rows for shard in shards(spark, checkpoint, UID)]
    assert sum(each.late for each in counts) == 0


def test_how_far_ahead_is_measured_from_the_journaled_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Rows a tenth of a second apart; the offset log says afterwards where the bound was."""
    feed, checkpoint = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint"
    first_ms = SystemClock().now_ms() + 2 * 3_600_000
    ahead_ms = [first_ms + 100 * at for at in range(600)]
    feed.add([row(str(t_ms), EPOCH + timedelta(milliseconds=t_ms)) for t_ms in ahead_ms])
    sink = run(retained(feed.stream(spark), rejects=True, max_ahead="2h"), checkpoint)
    bound_ms = batch_times_ms(checkpoint)[0] + 2 * 3_600_000
    rows = sink.batches[0].to_pylist()
    rejects = [json.loads(each["rejected"])["user"] for each in rows if each["change"] == "reject"]
    assert sorted(map(int, rejects)) == [t_ms for t_ms in ahead_ms if t_ms > bound_ms]
    accepted = [int(each["user"]) for each in rows if each["change"] == "update"]
    assert sorted(accepted) == [t_ms for t_ms in ahead_ms if t_ms <= bound_ms]


def test_min_event_time_moves_the_bound(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "input", SCHEMA)
    feed.add([row("a", AT), row("b", AT - timedelta(microseconds=1))])
    changes = retained(feed.table(spark), rejects=True, min_event_time="2024-05-01T12:00:00Z")
    found = changes.where("change = 'reject'").select("reason", "rejected").collect()
    assert [(each.reason, json.loads(each.rejected)["user"]) for each in found] == [
        ("too_old", "b")
    ]


def test_a_batch_frame_sets_the_same_rows_aside(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "input", SCHEMA)
    feed.add(FIRST)
    feed.add(SECOND)
    counted = (
        retained(feed.table(spark), rejects=True).groupBy("change", "reason").count().collect()
    )
    found = {each.reason: each["count"] for each in counted if each.change == "reject"}
    # There is no watermark before the one batch, so that nothing in it is late.
    assert found == {reason: count for reason, count in EXPECTED.items() if reason != "late"}


@pytest.mark.long
def test_malformed_json_lines_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    """A source's own column of what it could not parse, without any time of its own."""
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "0.json").write_text('{"user": "a"}\n{"user": \n{"user": "b"}\n')
    events = spark.readStream.schema("user string, _corrupt_record string").json(
        str(tmp_path / "input")
    )
    processing = Policy(idle_min_ms=600_000, idle_max_ms=900_000, time=TimeDomain.PROCESSING)
    changes = retain(
        events,
        key="user",
        aggregates={"n": "count"},
        policy=processing,
        malformed="_corrupt_record",
        rejects=True,
        uid=UID,
    )
    rows = run(changes, tmp_path / "checkpoint").table.to_pylist()
    assert sorted(each["user"] for each in rows if each["change"] == "update") == ["a", "b"]
    (reject,) = (each for each in rows if each["change"] == "reject")
    assert reject["reason"] == "malformed"
    assert json.loads(reject["rejected"]) == {"user": None, "_corrupt_record": '{"user": '}


NULL_KEYS = [
    row("a", AT, note="first"),
    row("a", AT, broken="{", note="second"),
    row(None, AT + 60 * MINUTE, note="first"),
    row(None, None, note="second"),
    row("b", AT, note="second"),
]


def test_a_null_key_is_one_key_unless_it_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "input", SCHEMA)
    feed.add(NULL_KEYS)
    kept = retained(feed.table(spark), rejects=True).collect()
    assert {each["user"]: each["n"] for each in kept if each["change"] == "update"} == {
        None: 1,
    }
    assert {each["user"] for each in kept if each["change"] == "expire"} == {"a", "b"}
    found = retained(feed.table(spark), rejects=True, null_key="reject").collect()
    # Without its time nothing is due: the watermark never saw the row.
    assert {each["user"]: each["change"] for each in found if each["change"] != "reject"} == {
        "a": "update",
        "b": "update",
    }
    reasons = [each["reason"] for each in found if each["change"] == "reject"]
    # A row without time too is of its key; a malformed one says nothing of its key.
    assert sorted(reasons) == ["malformed", "null_key", "null_key"]


@pytest.mark.parametrize("backend", ["spark", pytest.param("heap", marks=pytest.mark.long)])
def test_rows_with_a_null_key_are_counted_and_leave_the_watermark_alone(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    """Any column of a key of several is enough."""
    feed, checkpoint = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint"
    feed.add(NULL_KEYS)
    feed.add([row("b", AT, note="second"), row("b", AT), row(None, AT)])
    changes = retain(
        feed.stream(spark),
        key=["user", "note"],
        event_time="event_time",
        aggregates={"n": "count"},
        policy=POLICY,
        null_key="reject",
        rejects=True,
        backend=backend,
        uid=UID,
    )
    rows = run(changes, checkpoint).table.to_pylist()
    rejects = [(each["batch_id"], each["reason"]) for each in rows if each["change"] == "reject"]
    assert Counter(rejects) == {(0, "null_key"): 2, (1, "null_key"): 2}
    updates = {(each["user"], each["note"]): each["n"] for each in rows if each["user"]}
    # Had the watermark seen the rejected time, the second batch would be late.
    assert updates == {("a", "first"): 1, ("a", "second"): 1, ("b", "second"): 2}
    stop_private_sidecars()


@pytest.mark.long
def test_a_null_key_is_rejected_in_processing_time(spark: SparkSession, tmp_path: Path) -> None:
    feed, checkpoint = Feed(tmp_path / "input", SCHEMA), tmp_path / "checkpoint"
    feed.add(NULL_KEYS)
    changes = retain(
        feed.stream(spark),
        key="user",
        aggregates={"n": "count"},
        policy=replace(POLICY, time=TimeDomain.PROCESSING),
        null_key="reject",
        uid=UID,
    )
    rows = run(changes, checkpoint).table.to_pylist()
    assert {each["user"]: each["n"] for each in rows} == {"a": 2, "b": 1}
    assert sum(each.rows.null_key for each in shards(spark, checkpoint, UID)) == 2

"""`retain` by window through Spark: on backends, over restarts, and beside Spark's own windows."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import (
    Policy,
    explain,
    hopping,
    read_state,
    reload,
    retain,
    run_to_end,
    session,
    tumbling,
)
from idlestate.errors import RefusedError
from idlestate.retention.windows import Windows
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from tests import window_reference as reference
from tests.pipeline.streams import TIMESTAMP, Feed, Sink, run, start
from tests.reference import Record

UID = "windows"
DELAY_MS = 19_000
BEGIN = datetime(2024, 5, 1, tzinfo=UTC)
SCHEMA = pa.schema([("user", pa.string()), ("shop", pa.int32()), ("at", TIMESTAMP)])
TEXTS = {"n": "count", "least": "min(shop)"}


@pytest.fixture(autouse=True)
def no_sidecars_left() -> Iterator[None]:
    yield
    stop_private_sidecars()


def make_batches() -> list[list[dict[str, Any]]]:
    """Some 20 users, batches of ten seconds with rows of the seconds before, some of them late."""
    chance = Random(7)
    return [
        [
            {
                "user": f"u{chance.randrange(20)}" if chance.random() < 0.95 else None,
                "shop": chance.choice([1, 2, None]),
                "at": BEGIN
                + timedelta(milliseconds=10_000 * batch + chance.randrange(-24_000, 9_000)),
            }
            for _ in range(200)
        ]
        for batch in range(5)
    ]


def milliseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def retained(events: DataFrame, window: Windows, **more: Any) -> DataFrame:
    return retain(
        events,
        key=["user", "shop"],
        uid=UID,
        event_time="at",
        delay="19s",
        aggregates=TEXTS,
        window=window,
        **more,
    )


def spans(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(
        (
            str((row["user"], row["shop"])),
            milliseconds(row["window_start"]),
            milliseconds(row["window_end"]),
            row["n"],
        )
        for row in rows
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "backend", ["spark", "rocksdb", pytest.param("heap", marks=pytest.mark.variant)]
)
def test_windows_equal_those_of_the_reference_over_restarts(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    batches, sink, checkpoint = make_batches(), Sink(), tmp_path / "checkpoint"
    feed = Feed(tmp_path / "input", SCHEMA)

    def make() -> DataFrame:
        events = feed.stream(spark)
        more = {"backend": backend, "rejects": True, "fire_after": "1s"}
        return retained(events, hopping("10s", "5s"), **more)

    for at, batch in enumerate(batches[:-1]):
        feed.add(batch)
        if at % 2:
            run(make(), checkpoint, sink)
            stop_private_sidecars()
    feed.add(batches[-1])
    run_to_end(lambda: start(make(), checkpoint, sink, availableNow=True))

    of_time = partial(reference.hopping, size_ms=10_000, slide_ms=5_000)
    wanted = reference.FixedWindows(of_time, TEXTS)
    watermark_ms, late, shown, ever = 0, 0, list[Any](), set[Any]()
    for batch in batches:
        for row in batch:
            t_ms = milliseconds(row["at"])
            if t_ms > watermark_ms:
                wanted.take(Record((row["user"], row["shop"]), t_ms, row))
            else:
                late += 1
        wanted.close(watermark_ms)
        reached_ms = watermark_ms + DELAY_MS - 1_000
        for at, span in wanted.open.items():
            if at[2] - 1 <= reached_ms and (at not in ever or at in wanted.touched):
                shown.append((str(span.key), span.start_ms, span.end_ms, len(span.records)))
                ever.add(at)
        wanted.touched.clear()
        newest_ms = max(milliseconds(row["at"]) for row in batch)
        watermark_ms = max(watermark_ms, newest_ms - DELAY_MS - 1)
    wanted.close(watermark_ms)

    found = sink.table.to_pylist()
    assert late
    assert sum(row["change"] == "reject" for row in found) == late
    closed = [
        (str(row["key"]), row["window_start"], row["window_end"], row["n"]) for row in wanted.closed
    ]
    expired = [row for row in found if row["change"] == "expire"]
    assert spans(expired) == sorted(closed)
    assert spans([row for row in found if row["change"] == "update"]) == sorted(shown)
    assert 0 < len(ever) < len(shown)
    state = read_state(spark, str(checkpoint)).toArrow().to_pylist()
    assert spans(state) == sorted(
        (str(span.key), span.start_ms, span.end_ms, len(span.records))
        for span in wanted.open.values()
    )
    one = state[0]
    told = explain([one["user"], one["shop"], one["window_end"].isoformat()], checkpoint, uid=UID)
    assert told.details.deadline_ms == milliseconds(one["window_end"]) - 1

    with pytest.raises(RefusedError, match=r"ends by itself and takes no policy"):
        reload(checkpoint, uid=UID, policy=Policy(ttl="1h"))
    changed = retained(feed.stream(spark), hopping("10s", "2s"), backend=backend, rejects=True)
    with pytest.raises(RefusedError, match=r"window was hopping\(10s, 5s\), is now hopping"):
        run(changed, checkpoint)


@pytest.mark.parametrize("size", ["10s", pytest.param("1m", marks=pytest.mark.long)])
def test_tumbling_windows_of_a_batch_equal_those_of_spark(
    spark: SparkSession, tmp_path: Path, size: str
) -> None:
    feed = Feed(tmp_path / "input", SCHEMA)
    for batch in make_batches():
        feed.add(batch)
    events = feed.table(spark)
    seconds = "10 seconds" if size == "10s" else "60 seconds"
    theirs = events.groupBy("user", "shop", F.window("at", seconds).alias("w")).agg(
        F.count("*").alias("n")
    )
    wanted = theirs.selectExpr("user", "shop", "w.start window_start", "w.end window_end", "n")
    changes = retained(events, tumbling(size)).where("change = 'expire' or expired_at is null")
    newest = changes.groupBy("user", "shop", "window_start", "window_end").agg(
        F.max("n").alias("n")
    )
    assert spans(newest.toArrow().to_pylist()) == spans(wanted.toArrow().to_pylist())


def test_sessions_of_a_batch_equal_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "input", SCHEMA)
    for batch in make_batches():
        feed.add(batch)
    events = feed.table(spark)
    theirs = events.groupBy("user", "shop", F.session_window("at", "4 seconds").alias("w")).agg(
        F.count("*").alias("n")
    )
    wanted = theirs.selectExpr("user", "shop", "w.start window_start", "w.end window_end", "n")
    found = retained(events, session("4s")).toArrow().to_pylist()
    assert spans(found) == spans(wanted.toArrow().to_pylist())

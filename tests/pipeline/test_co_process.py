"""`co_process` through Spark: two streams, restarts, a batch that runs again, batch DataFrames."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from idlestate import (
    BatchedCoProcessFunction,
    KeyedCoProcessFunction,
    Policy,
    co_process,
    read_state,
    run_to_end,
)
from idlestate.errors import RefusedError
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from idlestate.state import ListStateDescriptor, ValueStateDescriptor
from idlestate.testing import CoFunctionHarness
from tests.pipeline.clicks import AT
from tests.pipeline.streams import TIMESTAMP, Feed, Sink, forget, start

ORDERS = pa.schema([("item", pa.string()), ("event_time", TIMESTAMP), ("n", pa.int32())])
ALARMS = pa.schema([("item", pa.string()), ("raised_at", TIMESTAMP), ("level", pa.int64())])
MINUTE = AT.resolution * 60_000_000
OUTPUT = "item string, what string, total bigint"
ARGUMENTS: dict[str, Any] = {
    "key": "item",
    "output": OUTPUT,
    "event_time": "event_time",
    "right_event_time": "raised_at",
    "delay": "20m",
    "right_delay": "30m",
    "policy": Policy(idle_min="30m", idle_max="45m"),
}


class Stock(KeyedCoProcessFunction):
    """Counts orders; an alarm tells what came since, and again after ten minutes."""

    total = ValueStateDescriptor(name="total", value_type=pa.int64(), default=0)
    levels = ListStateDescriptor(name="levels", value_type=pa.int64())

    def process_element1(self, row: Any, ctx: Any) -> Any:
        total = ctx.state(self.total)
        total.update(total.value() + row.n)

    def process_element2(self, row: Any, ctx: Any) -> Any:
        ctx.state(self.levels).add(row.level)
        ctx.timer("again", ctx.timestamp_ms + 600_000)
        yield ctx.key, f"level {row.level}", ctx.state(self.total).value()

    def on_timer(self, name: Any, ctx: Any) -> Any:
        yield ctx.key, f"{name} {ctx.state(self.levels).get()}", ctx.state(self.total).value()

    def on_expire(self, ctx: Any) -> Any:
        yield ctx.key, "end", ctx.state(self.total).value()


class FastStock(BatchedCoProcessFunction):
    """The same without the list of levels, in calls with many items."""

    total = Stock.total

    def process_batch1(self, rows: Any, ctx: Any) -> Any:
        total = ctx.state(self.total)
        total.update(total.value() + rows.n.to_numpy())

    def process_batch2(self, rows: Any, ctx: Any) -> Any:
        ctx.timer("again", ctx.timestamps_ms + 600_000)
        return self.told([f"level {level}" for level in rows.level.to_pylist()], ctx)

    def on_timers(self, name: Any, ctx: Any) -> Any:
        return self.told([name] * len(ctx.keys), ctx)

    def on_expires(self, ctx: Any) -> Any:
        return self.told(["end"] * len(ctx.keys), ctx)

    def told(self, what: list[str], ctx: Any) -> Any:
        return {"item": ctx.keys, "what": what, "total": ctx.state(self.total).value()}


def made() -> tuple[list[list[dict[str, Any]]], list[list[dict[str, Any]]]]:
    """Orders and alarms of four hours, each in three batches, up to 20 minutes out of order."""
    chance = random.Random(5)
    orders, alarms = [], []
    for at in range(100):
        when, item = chance.randrange(240), chance.choice("abcd")
        orders.append((when, {"item": item, "event_time": AT + when * MINUTE, "n": at}))
        when = chance.randrange(240)
        alarms.append((when, {"item": item, "raised_at": AT + when * MINUTE, "level": at % 7}))
    found = []
    for rows in (orders, alarms):
        turned = [row for _, row in sorted(rows, key=lambda row: row[0] + chance.uniform(0, 20))]
        found.append([turned[:40], turned[40:70], turned[70:]])
    return found[0], found[1]


def expected(
    *inputs: list[list[dict[str, Any]]], function: KeyedCoProcessFunction | None = None
) -> Counter[Any]:
    """All at once, by the harness, which the slow model checks."""
    harness = CoFunctionHarness(ORDERS, ALARMS, function=function or Stock(), **ARGUMENTS)
    rows = [
        (name, row)
        for name, batches in zip(("left", "right"), inputs, strict=True)
        for batch in batches
        for row in batch
    ]
    return counted(harness.batch(rows) + harness.finish())


def counted(rows: list[dict[str, Any]]) -> Counter[Any]:
    return Counter((row["item"], row["what"], row["total"]) for row in rows)


def stocked(orders: DataFrame, alarms: DataFrame, **changed: Any) -> DataFrame:
    arguments = ARGUMENTS | {"function": Stock(), "uid": "stock"} | changed
    return co_process(orders, alarms, **arguments)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["spark", "rocksdb"])
def test_orders_and_alarms_meet_in_one_state(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    inputs = made()
    feeds = Feed(tmp_path / "orders", ORDERS, 1), Feed(tmp_path / "alarms", ALARMS, 1)
    for feed, batches in zip(feeds, inputs, strict=True):
        for batch in batches:
            feed.add(batch)
    checkpoint, sink = tmp_path / "checkpoint", Sink()

    def started() -> StreamingQuery:
        changes = stocked(feeds[0].stream(spark), feeds[1].stream(spark), backend=backend)
        return start(changes, checkpoint, sink, availableNow=True)

    started().awaitTermination()
    if backend == "spark":
        forget(checkpoint / "commits", max(sink.batches))  # it runs again
    run_to_end(started)
    assert counted(sink.table.to_pylist()) == expected(*inputs)
    state = read_state(spark, str(checkpoint))
    assert {"item", "total", "levels", "timers"} <= set(state.columns)
    if backend != "spark":
        stop_private_sidecars()
        return
    whole = stocked(feeds[0].table(spark), feeds[1].table(spark)).toArrow()
    assert counted(whole.to_pylist()) == expected(*inputs)
    with pytest.raises(RefusedError, match="one input is a stream and the other is not"):
        stocked(feeds[0].stream(spark), feeds[1].table(spark))


def test_many_items_meet_in_one_call(spark: SparkSession, tmp_path: Path) -> None:
    inputs = made()
    feeds = Feed(tmp_path / "orders", ORDERS, 1), Feed(tmp_path / "alarms", ALARMS, 1)
    for feed, batches in zip(feeds, inputs, strict=True):
        for batch in batches:
            feed.add(batch)
    whole = stocked(feeds[0].table(spark), feeds[1].table(spark), function=FastStock())
    rows = whole.toArrow().to_pylist()
    assert {row["what"] for row in rows} >= {"level 3", "again"}
    assert counted(rows) == expected(*inputs, function=FastStock())

"""`join_asof` through Spark: two streams, however far apart, and batch DataFrames."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from idlestate import Policy, join_asof, read_state, run_to_end
from idlestate.errors import RefusedError
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from tests.pipeline.clicks import AT, EPOCH, MINUTE_MS
from tests.pipeline.streams import TIMESTAMP, Feed, Found, Sink, forget, start
from tests.reference import Record, Rule
from tests.reference_joins import AsOfReference, in_turn

ORDERS = pa.schema([("item", pa.string()), ("event_time", TIMESTAMP), ("order_id", pa.int32())])
PRICES = pa.schema([("item", pa.string()), ("valid_from", TIMESTAMP), ("price", pa.int64())])
TTL_MS = 30 * MINUTE_MS


def moment(minute: int) -> Any:
    return AT + minute * (AT.resolution * 60_000_000)


def made(seed: int) -> tuple[list[list[Found]], list[list[Found]]]:
    """Orders and prices of four hours, each up to 20 minutes out of order, in three batches each;
    the prices of a batch are of an hour before its orders.
    """
    chance = random.Random(seed)
    orders, prices = [], []
    for at in range(120):
        minute = chance.randrange(240)
        item = chance.choice("abcd")
        orders.append((minute, {"item": item, "event_time": moment(minute), "order_id": at}))
        minute = chance.randrange(240)
        prices.append((minute, {"item": item, "valid_from": moment(minute), "price": at}))
    return tuple(_batches(chance, rows) for rows in (orders, prices))  # type: ignore[return-value]


def _batches(chance: random.Random, rows: list[tuple[int, Found]]) -> list[list[Found]]:
    found = [row for _, row in sorted(rows, key=lambda row: row[0] + chance.uniform(0, 20))]
    cuts = sorted(chance.sample(range(1, len(found)), 2))
    return [found[a:b] for a, b in zip([0, *cuts], [*cuts, len(found)], strict=True)]


def expected(orders: list[list[Found]], prices: list[list[Found]], how: str) -> Counter[str]:
    reference = AsOfReference(Rule(ttl_ms=TTL_MS), ["order_id"], ["price"], how)
    records = [
        Record((row["item"],), _ms(row[time]), row, read=time == "event_time")
        for batches, time in ((orders, "event_time"), (prices, "valid_from"))
        for batch in batches
        for row in batch
    ]
    for record in in_turn(records, ["price", "valid_from"], "price"):
        reference.take(record)
    return Counter((r["key"][0], r["order_id"], r["price"]) for r in reference.found)  # type: ignore[misc]


def _ms(at: Any) -> int:
    return int((at - EPOCH).total_seconds() * 1000)


def counted(table: pa.Table) -> Counter[Any]:
    return Counter((r["item"], r["order_id"], r["price"]) for r in table.to_pylist())


def joined(orders: DataFrame, prices: DataFrame, **changed: Any) -> DataFrame:
    arguments: dict[str, Any] = {
        "on": "item",
        "event_time": "event_time",
        "version_event_time": "valid_from",
        "delay": "20m",
        "how": "left",
        "policy": Policy(ttl_ms=TTL_MS),
        "uid": "priced",
        "order": "price",
    }
    return join_asof(orders, prices, **(arguments | changed))


@pytest.mark.long
@pytest.mark.parametrize("backend", ["spark", "rocksdb"])
def test_orders_find_the_price_of_their_time(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    orders, prices = made(1)
    feeds = Feed(tmp_path / "orders", ORDERS, 1), Feed(tmp_path / "prices", PRICES, 1)
    for feed, batches in zip(feeds, (orders, prices), strict=True):
        for batch in batches:
            feed.add(batch)
    checkpoint, sink = tmp_path / "checkpoint", Sink()

    def started() -> StreamingQuery:
        changes = joined(feeds[0].stream(spark), feeds[1].stream(spark), backend=backend)
        return start(changes, checkpoint, sink, availableNow=True)

    started().awaitTermination()
    if backend == "spark":
        forget(checkpoint / "commits", max(sink.batches))  # it runs again
    run_to_end(started)
    assert counted(sink.table) == expected(orders, prices, "left")
    assert set(read_state(spark, str(checkpoint)).columns) > {"item", "price", "valid_from"}
    if backend != "spark":
        stop_private_sidecars()
        return

    whole = joined(feeds[0].table(spark), feeds[1].table(spark)).toArrow()
    assert counted(whole) == expected(orders, prices, "left")
    inner = joined(feeds[0].table(spark), feeds[1].table(spark), how="inner").toArrow()
    assert counted(inner) == expected(orders, prices, "inner")
    assert inner.column_names == [
        "item",
        "event_time",
        "order_id",
        "valid_from",
        "price",
        "batch_id",
    ]


@pytest.mark.long
@pytest.mark.parametrize("backend", ["spark", "heap"])
def test_time_goes_on_without_prices(spark: SparkSession, tmp_path: Path, backend: str) -> None:
    feeds = Feed(tmp_path / "orders", ORDERS, 1), Feed(tmp_path / "prices", PRICES, 1)
    for at in range(5):
        ordered = [("a", at * 10), (None, at * 10 + 1)]
        feeds[0].add(
            [
                {"item": item, "event_time": moment(minute), "order_id": minute}
                for item, minute in ordered
            ]
        )
    feeds[1].add(
        [{"item": item, "valid_from": moment(minute), "price": minute}
         for item, minute in (("a", 1), (None, 1))]
    )  # fmt: skip
    checkpoint, sink = tmp_path / "checkpoint", Sink()
    arguments = {"idle_after": "0s", "delay": "0s", "policy": Policy(), "rejects": True}
    arguments["backend"] = backend

    def started() -> StreamingQuery:
        changes = joined(feeds[0].stream(spark), feeds[1].stream(spark), **arguments)
        return start(changes, checkpoint, sink, availableNow=True)

    def run() -> None:
        # On Spark 4.1, rows that wait in a sidecar may wait for the next run otherwise.
        started().awaitTermination() if backend == "spark" else run_to_end(started)
        stop_private_sidecars()

    run()
    assert counted(sink.table) == {
        (item, minute, 1 if item and minute else None): 1
        for at in range(5)
        for item, minute in (("a", at * 10), (None, at * 10 + 1))
        if backend != "spark" or minute < 41
    }
    before = dict(sink.batches)
    if backend == "spark":
        forget(checkpoint / "commits", max(before))  # it runs again
    feeds[0].add([])
    feeds[1].add([{"item": "a", "valid_from": moment(39), "price": 0}])
    run()
    assert {batch: sink.batches[batch] for batch in before} == before
    late = [row for row in sink.table.to_pylist() if row["reason"]]
    assert [(row["reason"], row["input"]) for row in late] == [("late", "versions")]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"how": "outer"}, "how 'outer' is not valid; pass 'inner' or 'left'"),
        ({"on": "id"}, "column id of the versions not found; available: item, valid_from, price"),
        ({"version_event_time": None}, "event_time column event_time not found; available: item"),
        ({"columns": ["cost"]}, "column cost of the versions not found"),
        ({"order": "order_id"}, "order: use columns of the versions: valid_from, price"),
    ],
)
def test_refused(spark: SparkSession, changed: dict[str, Any], says: str) -> None:
    orders = spark.createDataFrame([], "item string, event_time timestamp, order_id int")
    prices = spark.createDataFrame([], "item string, valid_from timestamp, price bigint")
    with pytest.raises(RefusedError, match=says):
        joined(orders, prices, **changed)


def test_columns_of_one_name_are_refused(spark: SparkSession) -> None:
    orders = spark.createDataFrame([], "item string, event_time timestamp, price int")
    prices = spark.createDataFrame([], "item string, valid_from timestamp, price bigint")
    with pytest.raises(RefusedError, match="both inputs have a column price; leave it out"):
        joined(orders, prices)
    numbers = spark.createDataFrame([], "item int, valid_from timestamp, cost bigint")
    with pytest.raises(RefusedError, match="item is of type string in the probes and int in the"):
        joined(orders, numbers, order=())


def test_the_watermark_of_the_input_that_is_ahead_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    feeds = Feed(tmp_path / "orders", ORDERS, 1), Feed(tmp_path / "prices", PRICES, 1)
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
    try:
        with pytest.raises(RefusedError, match=r"multipleWatermarkPolicy is max, .* set it to min"):
            joined(feeds[0].stream(spark), feeds[1].stream(spark))
    finally:
        spark.conf.unset("spark.sql.streaming.multipleWatermarkPolicy")

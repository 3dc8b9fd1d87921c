"""`join` through Spark: two streams, however far apart, a restart, and batch DataFrames."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from idlestate import explain, join, plan, read_state, reload, run_to_end
from idlestate.errors import RefusedError
from idlestate.retention.policy import Policy, TimeDomain, UpdateType
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from tests.pipeline.clicks import EPOCH, MINUTE_MS
from tests.pipeline.streams import Feed, Sink, forget, start
from tests.pipeline.test_join_asof import ORDERS, PRICES, made
from tests.reference_stream_joins import JoinedRow, StreamJoinReference

DELAY_MS = 20 * MINUTE_MS
BETWEEN_MS = (-10 * MINUTE_MS, 30 * MINUTE_MS)
Rows = list[list[dict[str, Any]]]


def ms(at: Any) -> int:
    return int((at - EPOCH).total_seconds() * 1000)


def joined(orders: DataFrame, prices: DataFrame, **changed: Any) -> DataFrame:
    arguments: dict[str, Any] = {
        "on": "item",
        "between": ("-10m", "30m"),
        "event_time": "event_time",
        "right_event_time": "valid_from",
        "delay": "20m",
        "how": "full",
        "uid": "offers",
    }
    return join(orders, prices, **(arguments | changed))


def reference(
    how: str, orders: Rows, prices: Rows, *, is_stream: bool
) -> tuple[StreamJoinReference, int]:
    """The reference at the end of the input, and the watermark there."""
    expected = StreamJoinReference(how, BETWEEN_MS, (None, None))
    highest = []
    inputs = (orders, "event_time", "order_id"), (prices, "valid_from", "price")
    for side, (batches, time, value) in enumerate(inputs):
        rows = [JoinedRow((row["item"],), ms(row[time]), row[value]) for b in batches for row in b]
        highest.append(max(row.t_ms for row in rows))
        for row in rows:
            expected.take(side, row)
    watermark_ms = min(highest) - DELAY_MS - 1 if is_stream else 1 << 60
    expected.sweep(watermark_ms)
    return expected, watermark_ms


def counted(table: pa.Table) -> Counter[Any]:
    rows = table.to_pylist()
    return Counter(((row["item"],), row["order_id"], row.get("price")) for row in rows)


@pytest.mark.long
@pytest.mark.parametrize(
    "backend", ["heap", "spark", pytest.param("rocksdb", marks=pytest.mark.variant)]
)
def test_orders_and_prices_meet(spark: SparkSession, tmp_path: Path, backend: str) -> None:
    orders, prices = made(2)
    feeds = Feed(tmp_path / "orders", ORDERS, 1), Feed(tmp_path / "prices", PRICES, 1)
    for feed, batches in zip(feeds, (orders, prices), strict=True):
        for batch in batches:
            feed.add(batch)
    checkpoint, sink = tmp_path / "checkpoint", Sink()

    def started() -> StreamingQuery:
        pairs = joined(feeds[0].stream(spark), feeds[1].stream(spark), backend=backend)
        return start(pairs, checkpoint, sink, availableNow=True)

    started().awaitTermination()
    if backend == "spark":
        forget(checkpoint / "commits", max(sink.batches))  # it runs again
    else:
        stop_private_sidecars()  # the next start finds its state
    run_to_end(started)
    expected, watermark_ms = reference("full", orders, prices, is_stream=True)
    assert counted(sink.table) == Counter(expected.found)
    kept = read_state(spark, str(checkpoint)).toArrow()
    assert Counter(kept.column("join_side").to_pylist()) == {
        side: len(rows) for side, rows in zip(("left", "right"), expected.rows, strict=True)
    }
    assert kept.column_names == [
        *("item", "join_side", "event_time", "order_id", "valid_from", "price"),
        *("created_at", "deadline"),
    ]
    (found,) = plan(Policy(ttl="1ms"), checkpoint)  # of both inputs
    assert found.stored_keys == len(kept)
    rows = [row for each in expected.rows for row in each]
    assert found.horizons[0].new.keys == sum(row.t_ms + 1 <= watermark_ms for row in rows)
    policies = Policy(ttl="1d"), Policy(ttl="2d")
    assert found.right == (Policy(), Policy(ttl="1ms"))
    version = reload(checkpoint, uid="offers", policy=policies[0], right_policy=policies[1])
    assert version.of_sides == policies
    with pytest.raises(RefusedError, match=r"on_read_and_write does not apply to joins"):
        plan(Policy(ttl="1h", ttl_update=UpdateType.ON_READ_AND_WRITE), checkpoint)
    told = explain(["a"], checkpoint)
    assert (told.policy, told.right_policy) == (Policy(), Policy())
    sides = told.details.sides
    of_key = [sum(row.key == ("a",) for row in rows) for rows in expected.rows]
    assert [sides[side].rows if side in sides else 0 for side in ("left", "right")] == of_key
    changed = joined(
        *(feed.stream(spark) for feed in feeds), between=("-10m", "1h"), backend=backend
    )
    with pytest.raises(RefusedError, match="kind was join full between -10m and 30m, is now join"):
        start(changed, checkpoint, sink, availableNow=True)
    if backend != "spark":
        stop_private_sidecars()
        return

    for how in ("full", "anti"):
        whole = joined(feeds[0].table(spark), feeds[1].table(spark), how=how).toArrow()
        expected, _ = reference(how, orders, prices, is_stream=False)
        assert counted(whole) == Counter(expected.found)
    assert whole.column_names == ["item", "event_time", "order_id", "batch_id"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"how": "outer"}, "how 'outer' is not valid; pass one of inner, left, right, full, semi"),
        ({"on": "id"}, "on: column id of the right input not found; available: item, valid_from"),
        ({"right_event_time": None}, "event_time column event_time not found; available: item"),
        ({"between": "30m"}, "between: '30m' cannot be used here; pass two durations"),
        ({"between": ("1h", "-1h")}, "between: 1h is after -1h, so that nothing matches"),
        ({"between": ("-1x", "1h")}, "between: .1x. is not a valid duration"),
        ({"policy": Policy(time=TimeDomain.PROCESSING)}, "a join needs event time"),
    ],
)
def test_refused(spark: SparkSession, changed: dict[str, Any], says: str) -> None:
    orders = spark.createDataFrame([], "item string, event_time timestamp, order_id int")
    prices = spark.createDataFrame([], "item string, valid_from timestamp, price bigint")
    with pytest.raises(RefusedError, match=says):
        joined(orders, prices, **changed)


def test_columns_of_one_name_are_refused_unless_the_right_one_is_not_emitted(
    spark: SparkSession,
) -> None:
    orders = spark.createDataFrame([], "item string, event_time timestamp, price int")
    prices = spark.createDataFrame([], "item string, valid_from timestamp, price bigint")
    with pytest.raises(RefusedError, match="both inputs have a column price; drop one, or rename"):
        joined(orders, prices)
    assert joined(orders, prices, how="semi").columns == [*orders.columns, "batch_id"]

"""What queries read: names in backquotes, the columns that are used, inputs that fall idle."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from idlestate import Policy, sql
from idlestate.pipeline.operator_spec import HASH, TIME
from idlestate.pipeline.pack import PACKER_NAME
from idlestate.pipeline.spark.dataframe_plan import analyzed_plan
from tests.pipeline.streams import TIMESTAMP, Feed, run

START = datetime(2025, 3, 3, tzinfo=UTC)
POLICY = Policy(ttl="1h")


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.drop("batch_id").collect()), key=repr)


INTERVAL = "LEFT JOIN payments p ON o.k = p.k AND p.t BETWEEN o.t AND o.t + INTERVAL 5 MINUTES"
AS_OF = "LEFT JOIN payments FOR SYSTEM_TIME AS OF o.t AS p ON o.k = p.k"


@pytest.mark.parametrize(
    ("join", "idle_after"),
    [
        pytest.param(AS_OF, "0s", id="as of"),
        pytest.param(INTERVAL, "0s", id="interval", marks=pytest.mark.long),
        pytest.param(INTERVAL, None, id="interval, not idle", marks=pytest.mark.long),
        pytest.param(AS_OF, None, id="as of, not idle", marks=pytest.mark.long),
    ],
)
def test_a_join_goes_on_without_rows_of_an_input_that_is_idle(
    spark: SparkSession, tmp_path: Path, join: str, idle_after: str | None
) -> None:
    orders = Feed(tmp_path / "orders", pa.schema({"k": pa.string(), "t": TIMESTAMP}), 1)
    payments = Feed(
        tmp_path / "payments", pa.schema({"k": pa.string(), "t": TIMESTAMP, "id": pa.int64()}), 1
    )
    payments.add([{"k": "a", "t": at(0), "id": 7}])
    for minute in (0, 10, 20):
        orders.add([{"k": "a", "t": at(minute)}, {"k": "b", "t": at(minute)}])
    orders.stream(spark).createOrReplaceTempView("orders")
    payments.stream(spark).createOrReplaceTempView("payments")
    query = f"SELECT o.k, minute(o.t) AS at, p.id FROM orders o {join}"
    found = sql(spark, query, uid="q", event_time="t", policy=POLICY, idle_after=idle_after)
    emitted = {(row["k"], row["at"]) for row in run(found, tmp_path / "c").table.to_pylist()}
    assert (("b", 0) in emitted) == bool(idle_after)
    assert ("b", 20) not in emitted


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            """SELECT `o o`.`the key`, `p``s`.`unit price` * 2 AS `twice it`, `o o`.`a.b`
            FROM `my orders` AS `o o` JOIN `my prices` `p``s` ON `o o`.`the key` = `p``s`.`key``s`
            AND `p``s`.`since it` BETWEEN `o o`.`at` - INTERVAL 5 MINUTES AND `o o`.`at`""",
            [
                {"the key": "x", "twice it": 3.0, "a.b": 3},
                {"the key": "x", "twice it": 5.0, "a.b": 4},
            ],
        ),
        (
            """SELECT `o o`.`a.b`, `p``s`.`unit price` AS `select` FROM `my orders` `o o`
            ASOF LEFT JOIN `my prices` AS `p``s`
            ON `o o`.`the key` = `p``s`.`key``s` AND `o o`.`at` >= `p``s`.`since it`""",
            [{"a.b": 3, "select": 1.5}, {"a.b": 4, "select": 2.5}, {"a.b": 5, "select": None}],
        ),
        (
            """SELECT `the key` AS `k k`, sum(`a.b`) AS `sum of` FROM `my orders`
            GROUP BY `the key` HAVING max(`a.b`) > 3 AND `the key` <> 'y'""",
            [{"k k": "x", "sum of": 7}],
        ),
    ],
)
def test_names_in_backquotes_may_be_any(
    spark: SparkSession, query: str, expected: list[dict[str, Any]]
) -> None:
    orders = [("x", at(1), 3), ("x", at(7), 4), ("y", at(2), 5)]
    prices = [("x", at(0), 1.5), ("x", at(6), 2.5)]
    columns = "`key``s` string, `since it` timestamp, `unit price` double"
    tables = {
        "`my orders`": spark.createDataFrame(orders, "`the key` string, at timestamp, `a.b` int"),
        "`my prices`": spark.createDataFrame(prices, columns),
    }
    for name, frame in tables.items():
        frame.createOrReplaceTempView(name)
    event_time = "at" if "GROUP BY" in query else None
    found = rows(sql(spark, query, uid="q", event_time=event_time, policy=POLICY))
    shown = [{name: row[name] for name in expected[0]} for row in found]
    assert [row for row in shown if row in expected] == expected


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT o.k, sum(v) AS s FROM orders o WHERE w > 1 GROUP BY o.k", [{"k", "v"}]),
        (
            "SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY t) AS s FROM orders",
            [{"k", "v", "t"}],
        ),
        (
            """SELECT o.k, p.v2 FROM orders o JOIN payments p ON o.k = p.k2
            AND p.t2 BETWEEN o.t AND o.t + INTERVAL 5 MINUTES WHERE o.w > 1""",
            [{"k", "t", "w"}, {"k", "right%2Et2", "p%2Ev2"}],
        ),
        (
            "SELECT o.k, p.v2 FROM orders o ASOF JOIN payments p ON o.k = p.k2 AND o.t >= p.t2",
            [{"k", "t"}, {"k", "v2"}],
        ),
    ],
)
def test_only_columns_that_are_used_travel(
    spark: SparkSession, tmp_path: Path, query: str, columns: list[set[str]]
) -> None:
    for name, n in (("orders", ""), ("payments", "2")):
        numbers = {f"{each}{n}": pa.int64() for each in "vwx"}
        schema = pa.schema({f"k{n}": pa.string(), f"t{n}": TIMESTAMP, **numbers})
        Feed(tmp_path / name, schema, 1).stream(spark).createOrReplaceTempView(name)
    event_time = None if "JOIN" in query or "OVER" in query else "t"
    plan = analyzed_plan(sql(spark, query, uid="q", event_time=event_time, policy=POLICY))
    packed = re.findall(rf"{PACKER_NAME}\w+\(([^)]*)\)", plan)
    found = [{re.sub(r"#\d+L?", "", name) for name in given.split(", ")} for given in packed]
    assert [names - {HASH, TIME} for names in found] == columns

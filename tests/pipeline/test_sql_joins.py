"""Joins and OVER in queries through Spark: their rows are those of the Python form."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from idlestate import Policy, join, join_asof, over, sql
from idlestate.errors import RefusedError

POLICY = Policy(idle_min="30m", idle_max="45m")
START = datetime(2025, 3, 3, tzinfo=UTC)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=repr)


def test_as_of_join_gives_the_rows_of_the_python_form(spark: SparkSession) -> None:
    orders = [
        (START + timedelta(minutes=at), key, at) for at, key in ((1, "x"), (5, "x"), (9, "y"))
    ]
    rates = [(START + timedelta(minutes=at), key, at / 2) for at, key in ((0, "x"), (5, "x"))]
    probes = spark.createDataFrame(orders, "t timestamp, cur string, id int")
    versions = spark.createDataFrame(rates, "ts timestamp, currency string, rate double")
    probes.createOrReplaceTempView("orders")
    versions.createOrReplaceTempView("rates")
    query = """
        SELECT o.id, r.rate * 2 AS twice FROM orders o
        ASOF LEFT JOIN rates r ON o.cur = r.currency AND o.t >= r.ts
        """
    shared: dict[str, Any] = {"uid": "j", "delay": "1m", "policy": POLICY}
    expected = join_asof(
        probes,
        versions.withColumnRenamed("currency", "cur"),
        on="cur",
        how="left",
        event_time="t",
        version_event_time="ts",
        columns=["rate"],
        **shared,
    ).selectExpr("id", "rate * 2 AS twice", "batch_id")
    found = sql(spark, query, **shared)
    assert found.columns == expected.columns
    assert rows(found) == rows(expected)
    assert {(row["id"], row["twice"]) for row in rows(found)} == {(1, 0.0), (5, 5.0), (9, None)}
    some = sql(
        spark,
        f"{query} WHERE r.rate > 1",
        rejects=True,
        min_event_time="2025-03-03T00:01:00Z",
        **shared,
    )
    assert {*some.columns} == {*found.columns, "reason", "input", "rejected"}
    assert [(row["id"], row["reason"], row["input"]) for row in rows(some)] == [
        (5, None, None), (None, "too_old", "versions"),
    ]  # fmt: skip


@pytest.fixture
def orders_and_payments(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Both have keys of their own and nulls, and both call their time `t`."""
    sides = []
    for name, key, step in (("orders", "k", 7), ("payments", "order_id", 11)):
        made = [
            (START + timedelta(minutes=at * step % 61), None if at == 9 else f"k{at % step}", at)
            for at in range(30)
        ]
        frame = spark.createDataFrame(made, f"t timestamp, {key} string, id int")
        frame.createOrReplaceTempView(name)
        sides.append(frame)
    return sides[0], sides[1]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        pytest.param(
            "JOIN", "p.order_id, o.id, o.t, p.id AS paid, p.t AS paid_at", marks=pytest.mark.long
        ),
        pytest.param("LEFT JOIN", "o.k, o.id, p.id AS paid", marks=pytest.mark.long),
        pytest.param("RIGHT OUTER JOIN", "p.order_id, o.id, p.id AS paid", marks=pytest.mark.long),
        ("FULL JOIN", "coalesce(o.k, p.order_id) AS k, o.id + p.id AS both, p.id AS paid"),
        ("LEFT SEMI JOIN", "o.*"),
        pytest.param("ANTI JOIN", "o.k, o.id", marks=pytest.mark.long),
    ],
)
def test_interval_joins_give_the_rows_of_sparks_own(
    spark: SparkSession,
    orders_and_payments: tuple[DataFrame, DataFrame],
    kind: str,
    columns: str,
) -> None:
    assert orders_and_payments
    query = f"""
        SELECT {columns} FROM orders o {kind} payments p ON o.k = p.order_id
        AND p.t BETWEEN o.t - INTERVAL '5' MINUTE AND o.t + INTERVAL '15 minutes'
        WHERE o.id <> 4"""
    found = sql(spark, query, uid="i", delay="1m").drop("batch_id")
    expected = spark.sql(query).select(*found.columns)
    assert found.columns == expected.columns or "*" in columns
    assert rows(found) == rows(expected)
    assert rows(found)


def test_hints_of_both_inputs_are_the_policies_of_the_python_form(
    spark: SparkSession, orders_and_payments: tuple[DataFrame, DataFrame]
) -> None:
    """A hint wins over the policy of the caller; an input without one has this policy."""
    orders, payments = orders_and_payments
    shared: dict[str, Any] = {"uid": "h", "event_time": "t", "backend": "heap"}
    query = "o.id, p.id AS paid FROM orders o FULL JOIN payments p ON o.k = p.order_id"
    found = [
        rows(sql(spark, f"SELECT {hint} {query}", policy=Policy(ttl="3m"), **shared))
        for hint in ("/*+ STATE_TTL('o'='9m','p'='0s') */", "/*+ STATE_TTL('o'='9m') */", "")
    ]
    right = payments.selectExpr("order_id AS k", "id AS paid", "t AS paid_at")
    policies = (Policy(ttl="9m"), Policy()), (Policy(ttl="9m"), Policy(ttl="3m")), None
    for each, pair in zip(found, policies, strict=True):
        left, of_right = pair or (Policy(ttl="3m"), None)
        expected = join(
            *(orders, right),
            on="k",
            how="full",
            right_event_time="paid_at",
            policy=left,
            right_policy=of_right,
            **shared,
        )
        assert each == rows(expected.select("id", "paid", "batch_id"))
    assert len({repr(each) for each in found}) == 3


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, 'line 1, column 32, "payments p": the query names no event time; pass event_time'),
        (
            {"event_time": "t", "version_event_time": "t"},
            "version_event_time does not apply to this query",
        ),
    ],
)
def test_arguments_that_do_not_fit_a_join(
    spark: SparkSession,
    orders_and_payments: tuple[DataFrame, DataFrame],
    given: dict[str, Any],
    what: str,
) -> None:
    assert orders_and_payments
    query = "SELECT o.id FROM orders o JOIN payments p ON o.k = p.order_id"
    with pytest.raises(RefusedError, match=re.escape(what)):
        sql(spark, query, uid="a", **given)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (
            "SELECT o.id, p.nope FROM orders o JOIN payments p ON o.k = p.order_id",
            'line 1, column 14, "p.nope": A column',
        ),
        (
            "SELECT o.id FROM orders o JOIN payments p ON o.k = p.nope",
            'line 1, column 52, "p.nope": A column',
        ),
        (
            "SELECT o.id FROM orders o JOIN payments p ON o.k = p.t",
            'line 1, column 46, "o.k": on: k is of type string in the left input and timestamp',
        ),
        (
            """SELECT o.*, p.id FROM orders o ASOF JOIN payments p
            ON o.k = p.order_id AND o.t >= p.t""",
            'line 1, column 13, "p.id": both inputs have a column id',
        ),
    ],
)
def test_what_the_operator_refuses_has_its_place(
    spark: SparkSession,
    orders_and_payments: tuple[DataFrame, DataFrame],
    query: str,
    what: str,
) -> None:
    assert orders_and_payments
    with pytest.raises(RefusedError, match=re.escape(what)):
        sql(spark, query, uid="a", event_time="t")


def test_over_gives_the_rows_of_the_python_form(spark: SparkSession) -> None:
    events = [
        (START + timedelta(minutes=at), key, at) for at, key in ((1, "x"), (5, "x"), (9, "y"))
    ]
    frame = spark.createDataFrame(events, "t timestamp, k string, v int")
    frame.createOrReplaceTempView("events")
    shared: dict[str, Any] = {"uid": "o", "delay": "1m", "policy": POLICY}
    query = "SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY t) AS s FROM events"
    expected = over(frame, key="k", columns={"s": "sum(v)"}, event_time="t", **shared)
    found = sql(spark, query, **shared)
    assert rows(found) == rows(expected.select("k", "v", "s", "batch_id"))
    assert {(row["v"], row["s"]) for row in rows(found)} == {(1, 1), (5, 6), (9, 9)}


@pytest.mark.parametrize(
    "frame",
    [
        "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW",
        "RANGE BETWEEN INTERVAL '7 minutes' PRECEDING AND CURRENT ROW",
    ],
)
def test_frames_give_the_rows_of_sparks_own_over(spark: SparkSession, frame: str) -> None:
    events = [
        (START + timedelta(minutes=at * 7 % 61), f"k{at % 3}", at % 5, at / 4) for at in range(60)
    ]
    spark.createDataFrame(events, "t timestamp, k string, v int, x double").createOrReplaceTempView(
        "framed"
    )
    over = f"OVER (PARTITION BY k ORDER BY t {frame})"
    query = f"SELECT *, sum(v) {over} AS s, max(x) {over} AS m, count(*) {over} AS n FROM framed"
    found = sql(spark, query, uid="f", delay="1m").drop("batch_id")
    assert rows(found) == rows(spark.sql(query).select(*found.columns))


def test_the_first_rows_of_each_key_are_those_of_spark(spark: SparkSession) -> None:
    events = [(START + timedelta(minutes=at * 7 % 61), f"k{at % 3}", at) for at in range(60)]
    spark.createDataFrame(events, "t timestamp, k string, v int").createOrReplaceTempView("ranked")
    query = """
        SELECT k, v, n FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t) AS n FROM ranked) r
        WHERE r.n <= 4
        """
    found = sql(spark, query, uid="n", delay="1m").drop("batch_id")
    first = rows(found)
    assert first == rows(spark.sql(query))
    assert len(first) == 12


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        ({"rows": 0}, "rows 0 is not valid; pass a number from 1 to 100000, or 'unbounded'"),
        ({"rows": "10"}, "rows: '10' cannot be used here; pass a number from 1 to 100000"),
        ({"range": "10"}, 'range: "10" has no unit'),
        ({"rows": 2, "range": "1h"}, "rows and range cannot be combined; remove one of them"),
    ],
)
def test_frames_that_are_refused(spark: SparkSession, frame: dict[str, Any], what: str) -> None:
    events = spark.createDataFrame([], "t timestamp, k string, v int")
    with pytest.raises(RefusedError, match=re.escape(what)):
        over(events, key="k", columns={"n": "count"}, event_time="t", uid="r", **frame)

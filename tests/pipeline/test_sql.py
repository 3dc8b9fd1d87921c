"""Queries through Spark: their rows are those of the Python form."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import (
    Policy,
    deduplicate,
    hopping,
    read_state,
    retain,
    run_to_end,
    sql,
)

SCHEMA = "ts timestamp, k string, page string, a int, b int, user struct<id: string>"
POLICY = Policy(idle_min="30m", idle_max="45m")
SHARED: dict[str, Any] = {"uid": "q", "event_time": "ts", "delay": "10m", "policy": POLICY}
START = datetime(2025, 3, 3, tzinfo=UTC)
ROWS = [
    (START + timedelta(minutes=at), key, page, a, b, (key,))
    for at, key, page, a, b in [
        (0, "x", "/Home", 1, 2),
        (0, "y", "/home", 3, None),
        (5, "x", "/Cart", None, 4),
        (9, "z", None, 5, 6),
        (60, "x", "/home", 7, 8),
        (61, "w", "/it's", -1, 0),
        (150, "v", "/end", 0, 0),
    ]
]


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    frame = spark.createDataFrame(ROWS, SCHEMA)
    frame.createOrReplaceTempView("clicks")
    frame.drop("user").createOrReplaceTempView("small")
    return frame


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=repr)


Form = Callable[[DataFrame], DataFrame]
CASES: list[tuple[str, Form]] = [
    (
        "SELECT k, COUNT(*) FROM clicks GROUP BY k",
        lambda clicks: retain(clicks, key="k", aggregates={"count(1)": "count"}, **SHARED),
    ),
    (
        "SELECT c.k, sum(a * b) s, max_by(page, ts) last FROM clicks c WHERE c.a > 0 GROUP BY c.k",
        lambda clicks: retain(
            clicks.where("a > 0").withColumn("ab", F.expr("a * b")),
            key="k",
            aggregates={"s": "sum(ab)", "last": "max_by(page, ts)"},
            **SHARED,
        ),
    ),
    (
        "SELECT lower(page) AS page, count(*) AS n FROM clicks GROUP BY lower(page)",
        lambda clicks: retain(
            clicks.withColumn("page", F.lower("page")),
            key="page",
            aggregates={"n": "count"},
            **SHARED,
        ),
    ),
    (
        "SELECT count(*) AS n, k, sum(a) / count(*) AS mean FROM clicks GROUP BY k",
        lambda clicks: with_mean(
            retain(clicks, key="k", aggregates={"n": "count", "s": "sum(a)"}, **SHARED)
        ),
    ),
    (
        """
        SELECT user.id, count(*) FILTER (WHERE page = '/it\\'s') AS n, max(coalesce(a, b)) AS v
        FROM clicks GROUP BY user.id
        """,
        lambda clicks: retain(
            clicks.withColumns(
                {
                    "user.id": F.expr("user.id"),
                    "is": F.expr('CASE WHEN page = "/it\'s" THEN 1 END'),
                    "either": F.expr("coalesce(a, b)"),
                }
            ),
            key="user.id",
            aggregates={"n": "count(is)", "v": "max(either)"},
            **SHARED,
        ).withColumnRenamed("user.id", "id"),
    ),
    (
        """
        SELECT k, count(*) AS n FROM (SELECT k, ts, a AS v FROM clicks WHERE k <> 'y') s
        WHERE s.v IS NOT NULL GROUP BY s.k HAVING count(*) >= 2 OR s.k = 'z'
        """,
        lambda clicks: retain(
            clicks.where("k <> 'y' AND a IS NOT NULL"),
            key="k",
            aggregates={"n": "count"},
            **SHARED,
        ).where("n >= 2 OR k = 'z'"),
    ),
    (
        "SELECT /*+ STATE_TTL('clicks'='1h') */ k, count(*) AS n FROM clicks GROUP BY k",
        lambda clicks: retain(
            clicks, key="k", aggregates={"n": "count"}, **{**SHARED, "policy": Policy(ttl="1h")}
        ),
    ),
    (
        "SELECT /*+ STATE_TTL('clicks'='0s') */ k, count(*) AS n FROM clicks GROUP BY k",
        lambda clicks: retain(
            clicks, key="k", aggregates={"n": "count"}, **{**SHARED, "policy": None}
        ),
    ),
]


CASES += [
    (
        "SELECT DISTINCT k, lower(page) AS p FROM clicks WHERE a IS NOT NULL",
        lambda clicks: deduplicate(
            clicks.where("a IS NOT NULL").select("k", F.lower("page").alias("p"), "ts"),
            key=["k", "p"],
            **SHARED,
        ).drop("ts"),
    ),
    (
        """
        SELECT k, page, a + 1 AS a FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts, page) AS rn FROM small)
        WHERE rn = 1
        """,
        lambda clicks: added_one(
            deduplicate(clicks.drop("user"), key="k", order="page", **SHARED), ["k", "page"]
        ),
    ),
    (
        """
        SELECT * FROM (
            SELECT k, page, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS rn FROM clicks)
        WHERE rn = 1
        """,
        lambda clicks: numbered(
            deduplicate(clicks.select("k", "page", "ts"), key="k", keep="last", **SHARED)
        ),
    ),
    (
        """
        SELECT k, window.start AS s, window, count(*) AS n FROM clicks
        GROUP BY k, window(ts, '1 hour', '30 minutes')
        """,
        lambda clicks: with_bounds(
            retain(
                clicks,
                key="k",
                aggregates={"n": "count"},
                window=hopping("1h", "30m"),
                **{**SHARED, "policy": None},
            )
        ),
    ),
]


def added_one(changes: DataFrame, first: list[str]) -> DataFrame:
    return changes.select(*first, F.expr("a + 1").alias("a"), *added_columns(changes))


def numbered(changes: DataFrame) -> DataFrame:
    return changes.select("k", "page", F.lit(1).alias("rn"), *added_columns(changes))


def with_bounds(changes: DataFrame) -> DataFrame:
    struct = F.struct(F.col("window_start").alias("start"), F.col("window_end").alias("end"))
    first = ["k", F.col("window_start").alias("s"), struct.alias("window"), "n"]
    return changes.select(*first, *added_columns(changes))


def added_columns(changes: DataFrame) -> list[str]:
    return changes.columns[changes.columns.index("change") :]


def with_mean(changes: DataFrame) -> DataFrame:
    first = ["n", "k", F.expr("s / n").alias("mean")]
    return changes.select(*first, *added_columns(changes))


SHORT = {1, 4, 8, 11}
"""Aggregates of expressions, a filter and a nested key, distinct rows, a window."""


@pytest.mark.parametrize(
    ("query", "form"),
    [
        pytest.param(query, form, id=query, marks=() if at in SHORT else pytest.mark.long)
        for at, (query, form) in enumerate(CASES)
    ],
)
def test_rows_are_those_of_the_python_form(
    spark: SparkSession, clicks: DataFrame, query: str, form: Form
) -> None:
    has_window = "window(" in query
    policy = None if has_window else POLICY
    found, expected = sql(spark, query, **{**SHARED, "policy": policy}), form(clicks)
    assert found.columns == expected.columns
    assert rows(found) == rows(expected) != []


def test_rejects_pass_having(spark: SparkSession, clicks: DataFrame) -> None:
    query = "SELECT k, count(*) AS n FROM clicks GROUP BY k HAVING count(*) > 5"
    late = sql(spark, query, rejects=True, min_event_time="2025-03-03T00:30:00Z", **SHARED)
    assert [row["change"] for row in rows(late)] == ["reject"] * 4


def test_a_condition_drops_no_malformed_row(spark: SparkSession, clicks: DataFrame) -> None:
    clicks.withColumn("bad", F.expr("if(k = 'y', 'x', null)")).createOrReplaceTempView("raw")
    query = (
        "SELECT k, count(*) AS n FROM (SELECT k, ts FROM raw WHERE a > 6) WHERE k <> 'y' GROUP BY k"
    )
    found = rows(sql(spark, query, malformed="bad", rejects=True, **SHARED))
    assert [(row["change"], row["reason"]) for row in found if row["change"] == "reject"] == [
        ("reject", "malformed")
    ]


def test_a_policy_of_a_file(spark: SparkSession, clicks: DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("version: 1\npolicies: {day: {ttl: 1d}, hour: {ttl: 1h}}\n")
    query = "SELECT /*+ RETENTION('c'='hour') */ k, count(*) AS n FROM clicks c GROUP BY k"
    named = {**SHARED, "policy": "day", "config": file}
    expected = retain(
        clicks, key="k", aggregates={"n": "count"}, **{**named, "policy": Policy(ttl="1h")}
    )
    assert rows(sql(spark, query, **named)) == rows(expected)


def test_unbounded_state_warns(
    spark: SparkSession, clicks: DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "idlestate"):
        sql(spark, "SELECT k, count(*) FROM clicks GROUP BY k", **{**SHARED, "policy": None})
    (record,) = caplog.records
    assert "operator q" in record.getMessage()


def test_a_stream_of_a_view_keeps_its_state(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    spark.createDataFrame(ROWS, SCHEMA).write.mode("overwrite").parquet(str(tmp_path / "in"))
    events = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    events.createOrReplaceTempView("stream")
    query = "SELECT lower(page) AS p, sum(a + 1) AS s FROM stream GROUP BY lower(page)"
    changes = sql(spark, query, **SHARED)
    writer = changes.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    run_to_end(lambda: writer.trigger(availableNow=True).start(str(tmp_path / "out")))
    assert {row["p"] for row in read_state(spark, str(tmp_path / "checkpoint")).collect()} == {
        "/end"
    }
    written = spark.read.parquet(str(tmp_path / "out")).where("change = 'expire'")
    assert ("/home", 6) in {(row["p"], row["s"]) for row in written.collect()}

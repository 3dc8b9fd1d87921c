"""All aggregates against Spark's own groupBy, on input in which each key has one life."""

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import Policy, retain
from tests.pipeline.streams import Feed
from tests.pipeline.values import NUMBERS, SCHEMA, VALUES, make_rows

HOUR_MS = 3_600_000
LONG = Policy(idle_min_ms=HOUR_MS, idle_max_ms=2 * HOUR_MS)
KEY = "k_string"


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    feed = Feed(tmp_path_factory.mktemp("aggregates") / "input", SCHEMA)
    feed.add(make_rows(400, seed=1))
    # A key of nulls alone, in every aggregate.
    blank = dict.fromkeys(SCHEMA.names) | {
        KEY: "blank",
        "event_time": make_rows(1, 2)[0]["event_time"],
    }
    feed.add([blank] * 3)
    return feed.table(spark)


SOME = ("int", "long", "float", "decimal", "string", "boolean", "timestamp", "nothing")
EACH_FORM = pytest.mark.parametrize(
    "columns",
    [pytest.param(SOME, id="some types"), pytest.param(VALUES, id="all", marks=pytest.mark.long)],
)


def aggregates(columns: Collection[str]) -> dict[str, tuple[str, Column]]:
    """Name to the aggregate as users write it and to what Spark's own functions make of it."""
    found: dict[str, tuple[str, Column]] = {"count": ("count", F.count(F.lit(1)))}
    for name in columns:
        column = F.col(name)
        found[f"count_{name}"] = f"count({name})", F.count(column)
        found[f"min_{name}"] = f"min({name})", F.min(column)
        found[f"max_{name}"] = f"max({name})", F.max(column)
        found[f"first_{name}"] = f"first({name})", F.min(timed(name)).getField("value")
        found[f"last_{name}"] = f"last({name})", F.max(timed(name)).getField("value")
        by = F.when(F.col("long").isNotNull(), F.struct("long", column.alias("value")))
        found[f"min_by_{name}"] = f"min_by({name}, long)", F.min(by).getField("value")
        found[f"max_by_{name}"] = f"max_by({name}, long)", F.max(by).getField("value")
    for name in columns:
        by = F.when(F.col(name).isNotNull(), F.struct(name, F.col("int").alias("value")))
        found[f"int_by_{name}"] = f"max_by(int, {name})", F.max(by).getField("value")
    for name in (each for each in columns if each in NUMBERS):
        found[f"sum_{name}"] = f"sum({name})", F.sum(name)
        found[f"avg_{name}"] = f"avg({name})", F.avg(name)
        for text in ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"):
            found[f"{text}_{name}"] = f"{text}({name})", getattr(F, text)(name)
        # Of decimals retain makes doubles; NaN has no place in Spark's percentiles.
        if name not in ("decimal", "wide", "float"):
            middle = F.percentile_approx(name, 0.5, 10_000)
            found[f"middle_{name}"] = f"approx_percentile({name}, 0.5, 1000000)", middle
    for name in columns:
        distinct = F.approx_count_distinct(name)
        found[f"distinct_{name}"] = f"approx_count_distinct({name})", distinct
        listed = F.array_sort(F.collect_list(F.when(F.col(name).isNotNull(), timed(name))))
        found[f"list_{name}"] = f"collect_list({name}, 1000)", listed.getField("value")
        values = F.sort_array(F.collect_list(name), asc=False)
        found[f"top_{name}"] = f"top_n({name}, 3)", F.slice(values, 1, 3)
    for name in ("string", "float", "decimal"):
        found[f"exact_{name}"] = f"count(distinct {name})", F.count_distinct(name)
        # Spark 4.1 collects every NaN.
        values = F.array_distinct(F.collect_set(name))
        found[f"set_{name}"] = f"collect_set({name}, 1000)", values
    found["bool_and"] = "bool_and(boolean)", F.bool_and("boolean")
    found["bool_or"] = "bool_or(boolean)", F.bool_or("boolean")
    return found


def timed(name: str) -> Column:
    """Struct comparison is field by field, nulls first: the tie rules of the design."""
    return F.struct(F.unix_millis("event_time"), F.col(name).alias("value"))


@EACH_FORM
def test_every_aggregate_equals_spark(
    spark: SparkSession, events: DataFrame, columns: Collection[str]
) -> None:
    wanted = aggregates(columns)
    changes = retain(
        events,
        key=KEY,
        event_time="event_time",
        aggregates={name: text for name, (text, _) in wanted.items()},
        policy=LONG,
        uid="aggregates",
    )
    grouped = events.groupBy(KEY).agg(*(column.alias(name) for name, (_, column) in wanted.items()))
    found, expected = by_key(changes.toArrow()), by_key(grouped.toArrow())
    assert found.keys() == expected.keys()
    assert "blank" in found
    wrong = [
        f"{key!r} {wanted[name][0]}: Spark {expected[key][name]!r}, retain {found[key][name]!r}"
        for key in expected
        for name in wanted
        if not same(*ordered(name, expected[key], found[key]), 1e-6 if "middle" in name else 1e-9)
    ]
    assert not wrong, "\n".join(wrong)


@EACH_FORM
def test_result_types_are_those_of_spark(events: DataFrame, columns: Collection[str]) -> None:
    wanted = aggregates(columns)
    changes = retain(
        events,
        key=KEY,
        event_time="event_time",
        aggregates={name: text for name, (text, _) in wanted.items()},
        policy=LONG,
        uid="types",
    )
    grouped = events.groupBy(KEY).agg(*(column.alias(name) for name, (_, column) in wanted.items()))
    assert types(changes, wanted) == types(grouped, wanted)
    assert all(field.nullable for field in changes.schema)


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        pytest.param(pa.int64(), [2**62, 2**62], "sum(x)", id="long"),
        pytest.param(
            pa.int64(), [-(2**63), -1], "sum(x)", id="long-negative", marks=pytest.mark.long
        ),
        pytest.param(
            pa.decimal128(38, 0), [10**38 - 1, 1], "sum(x)", id="decimal", marks=pytest.mark.long
        ),
    ],
)
def test_a_sum_that_does_not_fit_is_an_error_as_in_ansi_mode(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType, values: list[int], text: str
) -> None:
    feed = Feed(tmp_path / "input", pa.schema([*SCHEMA, ("x", kind)]))
    blank = dict.fromkeys(SCHEMA.names)
    feed.add(
        [{**blank, "x": value, "event_time": make_rows(1, 3)[0]["event_time"]} for value in values]
    )
    frame = feed.table(spark)
    with pytest.raises(Exception, match=r"OVERFLOW|OUT_OF_RANGE"):
        frame.groupBy("k_int").agg(F.expr(text)).toArrow()
    changes = retain(
        frame, key="k_int", event_time="event_time", aggregates={"s": text}, policy=LONG, uid="sum"
    )
    with pytest.raises(PythonException, match=r"sum\(x\) does not fit"):
        changes.toArrow()


def test_a_sum_may_leave_its_type_on_the_way(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "input", pa.schema([*SCHEMA, ("x", pa.int64())]))
    blank = dict.fromkeys(SCHEMA.names)
    at = make_rows(1, 3)[0]["event_time"]
    feed.add([{**blank, "event_time": at, "x": x} for x in (2**63 - 1, 2**63 - 1, -(2**63))])
    changes = retain(
        feed.table(spark),
        key="k_int",
        event_time="event_time",
        aggregates={"sum": "sum(x)", "avg": "avg(x)"},
        policy=LONG,
        uid="sum",
    )
    (row,) = changes.collect()
    assert row["sum"] == 2**63 - 2
    assert math.isclose(row["avg"], (2**63 - 2) / 3, rel_tol=1e-12)


def by_key(table: pa.Table) -> dict[Any, dict[str, Any]]:
    rows = table.to_pylist()
    found = {row[KEY]: row for row in rows}
    assert len(found) == len(rows)
    return found


def same(expected: Any, found: Any, off: float) -> bool:
    if isinstance(expected, list):
        pairs = zip(expected, found, strict=False)
        return len(expected) == len(found) and all(same(*pair, off) for pair in pairs)
    if type(expected) is type(found) is int and off > 1e-9:
        return abs(expected - found) <= abs(expected) * off
    if isinstance(expected, float) and isinstance(found, float):
        if math.isnan(expected) or math.isnan(found):
            return math.isnan(expected) == math.isnan(found)
        # Spark adds floats up in any order and without compensation.
        return math.isclose(expected, found, rel_tol=off, abs_tol=1e-6)
    return type(expected) is type(found) and bool(expected == found)


def ordered(name: str, *rows: dict[str, Any]) -> list[Any]:
    """Their values; sets, which have no order in Spark, in one."""
    is_set = name.startswith("set_")
    return [sorted(row[name], key=repr) if is_set else row[name] for row in rows]


def types(frame: DataFrame, names: dict[str, Any]) -> dict[str, str]:
    return {
        field.name: field.dataType.simpleString() for field in frame.schema if field.name in names
    }

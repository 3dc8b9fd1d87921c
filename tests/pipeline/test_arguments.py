"""What `retain` takes for a column, an aggregate, a duration, and what it says to anything else."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate.errors import RefusedError
from idlestate.pipeline.arguments import Arguments
from tests.pipeline.clicks import retained


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "select 'a' as user, timestamp'2024-05-01' as event_time, 1 as amount, '/' as page,"
        " array(1) as list, 2 as `odd.name`, named_struct('x', 1) as parts"
    )


@pytest.fixture
def given(clicks: DataFrame) -> Arguments:
    return Arguments("clicks", clicks.columns, ignores_case=True)


@pytest.fixture
def case_sensitive(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


COLUMNS: dict[str, tuple[Callable[[DataFrame], object], tuple[str, ...]]] = {
    "name": (lambda _: "user", ("user",)),
    "names": (lambda _: ["user", "page"], ("user", "page")),
    "other-case": (lambda _: ("USER", "Page"), ("user", "page")),
    "column": (lambda _: F.col("User"), ("user",)),
    "of-a-frame": (lambda df: [df.user, df["page"]], ("user", "page")),
    "odd-name": (lambda df: [F.col("`odd.name`"), "odd.name"], ("odd.name", "odd.name")),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_are_names_or_columns(clicks: DataFrame, given: Arguments, case: str) -> None:
    make, names = COLUMNS[case]
    assert given.columns("key", make(clicks)) == names


@pytest.mark.usefixtures("case_sensitive")
def test_case_counts_where_the_session_says_so(clicks: DataFrame) -> None:
    given = Arguments("clicks", clicks.columns, ignores_case=False)
    assert given.columns("key", "USER") == ("USER",)
    with pytest.raises(RefusedError, match="column USER not found"):
        retained(clicks, key="USER")


AGGREGATES: dict[str, tuple[Callable[[], object], dict[str, str]]] = {
    "text": (lambda: {"n": "count", "s": "sum( amount )"}, {"n": "count", "s": "sum( amount )"}),
    "other-case": (lambda: {"s": "Sum(AMOUNT)"}, {"s": "sum(amount)"}),
    "every-row": (
        lambda: [F.count("*").alias("n"), F.count(F.lit(1)).alias("m")],
        {"n": "count", "m": "count"},
    ),
    "one": (lambda: F.avg("Amount").alias("mean"), {"mean": "avg(amount)"}),
    "of-two": (
        lambda: [F.max_by("page", "event_time").alias("p")],
        {"p": "max_by(page, event_time)"},
    ),
    "in-order": (
        lambda: [F.first("page").alias("f"), F.last("page").alias("l")],
        {"f": "first(page)", "l": "last(page)"},
    ),
    "named-by-mapping": (lambda: {"n": F.count("page")}, {"n": "count(page)"}),
    "odd-names": (lambda: [F.max("`odd.name`").alias("a b")], {"a b": "max(`odd.name`)"}),
    "expression": (lambda: [F.expr("min(amount) as low")], {"low": "min(amount)"}),
}


@pytest.mark.parametrize("case", AGGREGATES)
def test_aggregates_are_text_or_spark_s_functions(given: Arguments, case: str) -> None:
    make, texts = AGGREGATES[case]
    assert given.aggregates(make()) == texts


@pytest.mark.parametrize(
    ("span", "span_ms"),
    [
        ("10m", 600_000),
        ("0", 0),
        (0, 0),
        (timedelta(minutes=10), 600_000),
        (timedelta(days=-1, hours=25), 3_600_000),
        (timedelta(0), 0),
    ],
)
def test_durations_are_text_or_timedelta(given: Arguments, span: object, span_ms: int) -> None:
    assert given.span_ms("delay", span) == span_ms


def distinct() -> Column:
    return F.sum_distinct("amount").alias("n")


REFUSED: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "key-number": (lambda: {"key": 3}, "key: 3 cannot be used here; pass a column name"),
    "key-none": (lambda: {"key": [None]}, "key: None cannot be used here; pass the name"),
    "key-computed": (
        lambda: {"key": F.upper("user").alias("user")},
        "key: upper.user. AS user is not a column of the input; add it with withColumn",
    ),
    "key-cast": (lambda: {"key": F.col("amount").cast("string")}, "key: CAST.*is not a column"),
    "key-of-struct": (lambda: {"key": F.col("parts.x")}, "key: parts.x is not a column"),
    "time-number": (lambda: {"event_time": 3}, "event_time: 3 cannot be used here"),
    "aggregates-text": (lambda: {"aggregates": "count"}, "aggregates: 'count' cannot be used"),
    "aggregates-list": (
        lambda: {"aggregates": ["count"]},
        "aggregates: 'count' cannot be used here; pass .'n': 'count'., or columns with a name",
    ),
    "aggregates-unnamed": (
        lambda: {"aggregates": [F.count("*")]},
        r"aggregates: count\(.\) cannot be used here; pass",
    ),
    "aggregates-number": (lambda: {"aggregates": {"n": 1}}, "aggregates: n: 1 cannot be used"),
    "aggregates-same-name": (
        lambda: {"aggregates": [F.count("*").alias("n"), F.sum("amount").alias("n")]},
        "aggregates: the name n is used twice",
    ),
    "aggregate-distinct": (lambda: {"aggregates": [distinct()]}, r"'sum\(distinct amount\)'"),
    "aggregate-computed": (
        lambda: {"aggregates": [F.sum(F.col("amount") + 1).alias("n")]},
        r"'sum\(\+\(amount, 1\)\)'",
    ),
    "aggregate-ignoring-nulls": (
        lambda: {"aggregates": [F.first("page", True).alias("n")]},
        r"'first\(page, true\)'",
    ),
    "aggregate-of-array": (
        lambda: {"aggregates": {"n": "max(list)"}},
        "aggregate n: column list is of type array<int>; select a part or cast it first",
    ),
    "delay-number": (lambda: {"delay": 600}, "delay: 600 has no unit; add a unit: 600s"),
    "delay-negative": (lambda: {"delay": timedelta(seconds=-1)}, "is negative"),
    "delay-too-fine": (lambda: {"delay": timedelta(microseconds=1500)}, "delay: .*1.5ms"),
    "delay-none": (lambda: {"delay": None}, "delay: expected a duration, found None"),
    "max-ahead-bool": (lambda: {"max_ahead": True}, "max_ahead: expected a duration, found true"),
    "policy-mapping": (
        lambda: {"policy": {"idle": "30m"}},
        r"policy: .'idle': '30m'. cannot be used here; pass Policy\(\.\.\.\), or the name",
    ),
    "config-number": (lambda: {"config": 3, "policy": None}, "config: 3 cannot be used here"),
    "shards-text": (lambda: {"shards": "8"}, "shards: '8' cannot be used here; pass a whole"),
    "shards-bool": (lambda: {"shards": True}, "shards: True cannot be used here"),
    "rejects-text": (lambda: {"rejects": "yes"}, "rejects: 'yes' cannot be used here; pass True"),
    "min-event-time-number": (lambda: {"min_event_time": 0}, "min_event_time: 0 cannot be used"),
    "null-key": (lambda: {"null_key": "drop"}, "null_key 'drop' is not valid; pass 'keep' or"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_arguments_are_refused_in_a_line(clicks: DataFrame, case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(RefusedError, match=message) as refused:
        retained(clicks, **make())
    assert str(refused.value).startswith("operator 'clicks': ")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_uid_that_is_not_text_is_refused(clicks: DataFrame) -> None:
    with pytest.raises(RefusedError, match="uid 3 is not valid"):
        retained(clicks, uid=3)


def test_columns_and_functions_give_what_their_names_give(clicks: DataFrame) -> None:
    named = retained(clicks, key=["user"], aggregates={"n": "count", "p": "max(page)"})
    made = retained(
        clicks,
        key=clicks.user,
        event_time=F.col("event_time"),
        delay=timedelta(minutes=10),
        aggregates=[F.count("*").alias("n"), F.max("PAGE").alias("p")],
    )
    assert made.schema == named.schema
    assert made.drop("batch_id").collect() == named.drop("batch_id").collect()

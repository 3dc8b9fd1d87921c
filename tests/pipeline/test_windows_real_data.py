"""Windows of real data as a batch: the same rows as Spark's own windows."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import retain, session, tumbling
from idlestate.retention.windows import Windows


def retained(events: DataFrame, key: str, window: Windows) -> DataFrame:
    """The one row of each window: a batch DataFrame is one batch."""
    changes = retain(
        events,
        key=key,
        uid="windows",
        event_time="event_time",
        aggregates={"n": "count"},
        window=window,
    )
    return changes.select(key, "window_start", "window_end", "n")


def differences(found: DataFrame, wanted: DataFrame) -> list[int]:
    """How many rows only one of them has, and how many both have."""
    both = found.withColumn("ours", F.lit(1)).join(
        wanted.withColumn("theirs", F.lit(1)), [*found.columns], "full"
    )
    counted = both.agg(
        *(F.count_if(F.expr(text)) for text in ("theirs is null", "ours is null", "ours = theirs"))
    )
    return list(counted.first() or ())


@pytest.mark.long
def test_sessions_of_globo_equal_those_of_spark(spark: SparkSession, data_dir: Path) -> None:
    """Of the first four of 16 days."""
    clicks = spark.read.parquet(str(data_dir / "globo_clicks.parquet"))
    events = clicks.where("event_time < '2017-10-05'")
    of_spark = events.groupBy("session_id", F.session_window("event_time", "30 minutes").alias("w"))
    wanted = of_spark.count().selectExpr("session_id", "w.start", "w.end", "count n")
    wanted = wanted.toDF("session_id", "window_start", "window_end", "n")
    only_ours, only_theirs, same = differences(
        retained(events, "session_id", session("30m")), wanted
    )
    assert (only_ours, only_theirs) == (0, 0)
    # The sessions of the source, and what comes back after a pause of more than 30 minutes.
    assert same == 309_094 + 20_606


@pytest.mark.long
def test_tumbling_windows_of_wikipedia_edits_equal_those_of_spark(
    spark: SparkSession, data_dir: Path
) -> None:
    events = spark.read.schema("event_time timestamp, user string").json(
        str(data_dir / "wikipedia_edits.json.gz")
    )
    of_spark = events.groupBy("user", F.window("event_time", "10 minutes").alias("w"))
    wanted = of_spark.count().selectExpr("user", "w.start", "w.end", "count n")
    wanted = wanted.toDF("user", "window_start", "window_end", "n")
    only_ours, only_theirs, same = differences(retained(events, "user", tumbling("10m")), wanted)
    assert (only_ours, only_theirs) == (0, 0)
    assert same > 10_531

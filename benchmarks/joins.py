"""An interval join of two streams, with idlestate and with Spark's own join."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import join
from recipes import Windows


def interval_join(left: DataFrame, right: DataFrame, windows: Windows) -> DataFrame:
    """Pairs of rows of a key that are at most the windows' max apart."""
    reach = f"{windows.max_ms}ms"
    return join(
        left,
        right.withColumnRenamed("event_time", "right_time"),
        on="key",
        between=(f"-{reach}", reach),
        event_time="event_time",
        right_time="right_time",
        delay=f"{windows.min_ms}ms",
        uid="bench",
    )


def spark_join(left: DataFrame, right: DataFrame, windows: Windows) -> DataFrame:
    """The same with Spark's join of streams."""
    delay = f"{windows.min_ms} milliseconds"
    reach = F.expr(f"interval {windows.max_ms} milliseconds")
    left = left.withWatermark("event_time", delay)
    right = right.select(F.col("key").alias("right_key"), F.col("event_time").alias("right_time"))
    right = right.withWatermark("right_time", delay)
    near = F.col("right_time").between(F.col("event_time") - reach, F.col("event_time") + reach)
    return left.join(right, (F.col("key") == F.col("right_key")) & near)

"""Joins of two streams, with idlestate and with Spark's own operators."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from idlestate import Policy, TimeDomain, join, join_asof
from recipes import Windows

MATCHED = StructType(
    [
        StructField("key", StringType()),
        StructField("at_ms", LongType()),
        StructField("version_ms", LongType()),
    ]
)


def interval_join(left: DataFrame, right: DataFrame, windows: Windows) -> DataFrame:
    """Pairs of rows of a key that are at most the windows' max apart."""
    reach = f"{windows.max_ms}ms"
    return join(
        left,
        right.withColumnRenamed("event_time", "right_event_time"),
        on="key",
        between=(f"-{reach}", reach),
        event_time="event_time",
        right_event_time="right_event_time",
        delay=f"{windows.min_ms}ms",
        uid="bench",
    )


def regular_join(left: DataFrame, right: DataFrame, windows: Windows) -> DataFrame:
    """Pairs of rows of a key, each row kept for a time to live: Flink's `STATE_TTL`."""
    return join(
        left,
        right.withColumnRenamed("event_time", "right_event_time"),
        on="key",
        event_time="event_time",
        right_event_time="right_event_time",
        policy=Policy(ttl_ms=windows.max_ms, time=TimeDomain.EVENT),
        uid="bench",
    )


def spark_join(left: DataFrame, right: DataFrame, windows: Windows) -> DataFrame:
    """The same with Spark's join of streams."""
    delay = f"{windows.min_ms} milliseconds"
    reach = F.expr(f"interval {windows.max_ms} milliseconds")
    left = left.withWatermark("event_time", delay)
    right = right.select(
        F.col("key").alias("right_key"), F.col("event_time").alias("right_event_time")
    )
    right = right.withWatermark("right_event_time", delay)
    near = F.col("right_event_time").between(
        F.col("event_time") - reach, F.col("event_time") + reach
    )
    return left.join(right, (F.col("key") == F.col("right_key")) & near)


def asof_join(probes: DataFrame, versions: DataFrame, windows: Windows) -> DataFrame:
    """Each probe with the newest version at its time; versions are kept."""
    del windows
    return join_asof(
        probes,
        versions.withColumnRenamed("event_time", "version_event_time"),
        on="key",
        event_time="event_time",
        version_event_time="version_event_time",
        uid="bench",
    )


class NewestVersion(StatefulProcessor):
    """An as-of join, row by row: rows are in order within a batch only."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        schema = StructType([StructField("version_ms", LongType())])
        self._newest = handle.getValueState("newest", schema)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        before = newest = self._newest.get()
        for row in sorted(rows, key=lambda row: (row.at_ms, row.is_probe)):
            if not row.is_probe:
                newest = (row.at_ms,)
            elif newest is not None:
                yield Row(key=key[0], at_ms=row.at_ms, version_ms=newest[0])
        if newest is not before:
            self._newest.update(newest)

    def close(self) -> None:
        pass


def asof_rows(probes: DataFrame, versions: DataFrame, windows: Windows) -> DataFrame:
    """The same with `transformWithState`; right on input whose batches are in order."""
    del windows
    probes, versions = (
        side.select(
            "key", F.unix_millis("event_time").alias("at_ms"), F.lit(flag).alias("is_probe")
        )
        for side, flag in ((probes, True), (versions, False))
    )
    return (
        probes.union(versions)
        .groupBy("key")
        .transformWithState(NewestVersion(), MATCHED, "Append", "None")
    )

"""A stream of visits on a compressed clock: half an hour of events in every batch, for ever.

A visitor joins, clicks for some hours and goes silent; some come back a few hours after they were
forgotten. Over a day fewer and more of them are there at a time. Everything is
computed from the row's number, so the stream is the same on every run and lies on no disk.
"""

from dataclasses import dataclass
from math import pi

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

import idlestate

STEP_MS = 1_800_000
"""Event time that a batch spans."""
START_MS = 946_684_800_000  # 2000-01-01 00:00:00 UTC
IDLE_MIN_MS, IDLE_MAX_MS = 3 * 3_600_000, 4 * 3_600_000
SILENT = IDLE_MAX_MS // STEP_MS
"""Batches after which a silent visitor is forgotten."""
RETURNING_SHARE = 0.04


@dataclass(frozen=True)
class Pace:
    """How much happens in a batch, and how much of it is kept."""

    rows: int
    joining: int
    """Visitors who come for the first time."""
    present: int
    """Visitors who are there at a time, over a day's mean."""
    day: int = 48
    """Batches of a day."""
    retained: int = 10
    """Batches that Spark keeps, and after which it takes a snapshot of its own state."""


FULL = Pace(rows=100_000, joining=25_000, present=250_000)
SHORT = Pace(rows=3_000, joining=1_000, present=2_000, day=8, retained=3)


def changes(spark: SparkSession, pace: Pace, uid: str) -> DataFrame:
    """The clicks of each visitor, who is forgotten after a while."""
    return idlestate.retain(
        visits(spark, pace),
        key="visitor",
        event_time="event_time",
        delay="10m",
        aggregates={"clicks": "count", "first": "min(event_time)", "newest": "max(event_time)"},
        policy=idlestate.Policy(idle_min_ms=IDLE_MIN_MS, idle_max_ms=IDLE_MAX_MS),
        uid=uid,
    )


def visits(spark: SparkSession, pace: Pace) -> DataFrame:
    """The stream: `event_time`, `visitor`."""
    batch = F.floor(F.col("value") / pace.rows)
    newest = batch * pace.joining
    present = pace.present * (1 + F.sin(batch * (2 * pi / pace.day)) / 2)
    # Behind those who are there: first the silent, then the forgotten who are still remembered.
    away = present + pace.joining * (SILENT + 2 + chance(2) * (SILENT - 4))
    behind = F.when(chance(1) < RETURNING_SHARE, away).otherwise(chance(2) * present)
    return ticks(spark, pace.rows).select(
        moment(3).alias("event_time"), F.floor(newest - behind).alias("visitor")
    )


def ticks(spark: SparkSession, rows: int) -> DataFrame:
    """A stream of numbers (`value`), so many in a batch, and the time of their batch."""
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", 2)
        .option("startTimestamp", START_MS)
        .option("advanceMillisPerBatch", STEP_MS)
        .load()
    )


def moment(salt: int) -> Column:
    """A time of the row's batch that follows from its number."""
    within_ms = F.floor(chance(salt) * STEP_MS)
    return F.timestamp_millis(F.unix_millis("timestamp") + within_ms)


def chance(salt: int) -> Column:
    """A number from 0 to 1 that follows from the row's number."""
    return F.pmod(F.xxhash64("value", F.lit(salt)), F.lit(1 << 30)) / (1 << 30)

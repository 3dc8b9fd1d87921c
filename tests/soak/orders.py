"""Two streams on a compressed clock, orders and their payments, and the join of both.

An order can be paid within two hours, but is kept for 90 minutes. A payment waits ten minutes for
its order. So state holds the orders of the last 90 minutes and the newest payments. Over a day,
fewer and more of both come in. Everything follows from the rows' numbers, as in `visits.py`.
"""

from dataclasses import dataclass
from math import pi

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

import idlestate
from tests.soak.visits import STEP_MS, chance, moment, ticks

PAID_WITHIN = 7_200_000 // STEP_MS
"""Batches in which the payments of an order come."""


@dataclass(frozen=True)
class Pace:
    """How much happens in a batch, and how much of it is kept."""

    rows: int
    """Of each input, at the busiest time of a day."""
    day: int = 24
    """Batches of a day."""
    retained: int = 10
    """Batches that Spark keeps, and after which it takes a snapshot of its own state."""


FULL = Pace(rows=60_000)
SHORT = Pace(rows=3_000, day=8, retained=3)


def changes(spark: SparkSession, pace: Pace, uid: str) -> DataFrame:
    """Orders with their payments, and those of both that found no match."""
    ago = F.floor(chance(2) * PAID_WITHIN * pace.rows)
    payments = _present(spark, pace).select(
        moment(4).alias("paid_at"),
        (F.col("value") - ago).alias("order_id"),
        F.floor(chance(5) * 5).cast("string").alias("method"),
    )
    orders = _present(spark, pace).select(
        moment(3).alias("ordered_at"),
        F.col("value").alias("order_id"),
        F.floor(chance(1) * 10_000).alias("amount"),
    )
    return idlestate.join(
        orders,
        payments,
        on="order_id",
        between=("-5m", "2h"),
        event_time="ordered_at",
        right_event_time="paid_at",
        how="full",
        delay="10m",
        policy=idlestate.Policy(ttl="90m"),
        right_policy=idlestate.Policy(ttl="10m"),
        uid=uid,
    )


def _present(spark: SparkSession, pace: Pace) -> DataFrame:
    return ticks(spark, pace.rows).where(chance(6) * 1.5 < 1 + _wave(pace) / 2)


def _wave(pace: Pace) -> Column:
    return F.sin(F.floor(F.col("value") / pace.rows) * (2 * pi / pace.day))

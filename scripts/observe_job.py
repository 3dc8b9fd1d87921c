"""The job of `make observe`: visitors who come, go idle, expire and return, until it is stopped.

    python scripts/observe_job.py FOLDER PORT

Each visitor is active for half a minute of every minute. One query keeps them with `retain` in the
sidecar beside it, and one joins their visits. Another one keeps them in Spark's own state, which
only grows. The job also writes to the sidecar directly.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import Policy, configure, join, retain, serve_metrics
from idlestate.sidecar import SidecarClient

ROWS_A_SECOND = 100
ACTIVE, VISITORS = 300, 600
STEP_ROWS, STEP = 2 * ROWS_A_SECOND, 20
CARTS = 50


def visits(spark: SparkSession) -> DataFrame:
    """A window of `ACTIVE` visitors that moves over all of them, again and again."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", ROWS_A_SECOND).load()
    first = F.floor(F.col("value") / STEP_ROWS) * STEP
    visitor = (first + F.pmod(F.hash("value"), F.lit(ACTIVE))) % VISITORS
    return rows.select(
        F.col("timestamp").alias("event_time"), visitor.cast("string").alias("visitor")
    )


def main(folder: Path, port: int) -> None:
    """Run until the process is ended."""
    spark = configure(
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    data = f"unix:{folder / 'data.sock'}"
    serve_metrics(spark, port)
    kept = retain(
        visits(spark),
        uid="visits-by-visitor",
        key="visitor",
        event_time="event_time",
        delay="1s",
        aggregates={"visits": "count"},
        policy=Policy(idle_min="5s", idle_max="10s", min_gap="1s"),
        backend="rocksdb",
        sidecar=data,
    )
    again = visits(spark).withColumnRenamed("event_time", "seen_again_at")
    pairs = join(
        visits(spark),
        again,
        uid="visits-seen-again",
        on="visitor",
        event_time="event_time",
        right_event_time="seen_again_at",
        between=("1ms", "5s"),
        delay="1s",
    )
    grows = visits(spark).groupBy("visitor", "event_time").count()
    queries = {"visits-by-visitor": kept, "visits-seen-again": pairs, "grows-forever": grows}
    for name, frame in queries.items():
        writer = frame.writeStream.queryName(name).format("noop")
        writer = writer.outputMode("update" if frame is grows else "append")
        writer = writer.option("checkpointLocation", str(folder / "checkpoints" / name))
        writer.trigger(processingTime="2 seconds").start()
    number = 0
    with SidecarClient(data, "carts", writer="observe") as carts:
        while not spark.streams.awaitAnyTermination(1):
            names = [f"customer-{(number + at) % (10 * CARTS)}" for at in range(CARTS)]
            carts.add_many({"customer": names, "amount": [1] * CARTS})
            carts.get_many({"customer": names})
            number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

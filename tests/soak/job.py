"""The query of a soak, in a process of its own.

    job.py OPERATOR PACE SECONDS BATCHES FOLDER

It goes on for so long after its first batch, or for so many batches. Its checkpoint is in
FOLDER/checkpoint; FOLDER/batches.jsonl gets a line per batch: what was reported of it, and how much
of the heap was in use after the last collection. The job requests a full collection at
intervals, because only that shows what is held.
"""

import json
import sys
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

# Behind everything else, so that no room of the project is found by its bare name first.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import idlestate
from idlestate.metrics.newest_shard_reports import reports_in
from tests.soak import orders, visits

STREAMS = {"retain": visits, "join": orders}
UID = "soak"
POLL_S = 1
COLLECT_S = 5
HEAP = "1g"


def start_session(folder: Path, retained: int) -> SparkSession:
    """As `idlestate run` starts it. The heap is taken whole at once, so that what grows is seen."""
    jvm = f"-Xms{HEAP} -XX:+AlwaysPreTouch -XX:+UseParallelGC"
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", HEAP)
    settings = {
        "spark.driver.extraJavaOptions": jvm,
        "spark.local.dir": folder / "local",
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.minBatchesToRetain": retained,
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": retained,
        "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # What Spark remembers of past work for its pages is full after a minute, not after hours.
        "spark.ui.retainedJobs": 50,
        "spark.ui.retainedStages": 50,
        "spark.ui.retainedTasks": 200,
        "spark.sql.ui.retainedExecutions": 50,
    }
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return idlestate.configure(spark)


def start_query(changes: DataFrame, folder: Path) -> StreamingQuery:
    writer = changes.writeStream.format("noop").outputMode("append")
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


class Notes:
    """The lines about batches, each batch once."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._path, self.last = path, -1
        self._stored: dict[int, int] = {}
        management = spark._jvm.java.lang.management.ManagementFactory
        self._memory = management.getMemoryMXBean()
        self._heap = 0

    def take(self, query: StreamingQuery) -> None:
        with self._path.open("a") as lines:
            for progress in query.recentProgress:
                seen = json.loads(progress.json)
                if seen["batchId"] > self.last:
                    self.last = seen["batchId"]
                    lines.write(json.dumps({**self._facts(seen), "heap": self._heap}) + "\n")

    def collect(self) -> None:
        """Have the JVM's heap collected, and keep how much of it is in use."""
        self._memory.gc()
        self._heap = self._memory.getHeapMemoryUsage().getUsed()

    def _facts(self, progress: dict[str, Any]) -> dict[str, Any]:
        shards = [each.as_dict() for each in reports_in(progress, UID) or []]
        # A shard whose files hold fewer rows than before merged them all.
        merged = sum(each["stored_rows"] < self._stored.get(each["shard"], 0) for each in shards)
        self._stored |= {each["shard"]: each["stored_rows"] for each in shards}
        names = (
            "live_keys",
            "state_bytes",
            "remembered_keys",
            "created",
            "returning_keys",
            "expired_idle",
            "expired_ttl",
            "expired_lifetime",
            "input",
        )
        return {
            "batch": progress["batchId"],
            "began": progress["timestamp"],
            "ms": progress["durationMs"]["triggerExecution"],
            "rows": progress["numInputRows"],
            "shards": len(shards),
            "merged": merged,
            **{name: sum(each[name] for each in shards) for name in names},
        }


def main(operator: str, pace_name: str, seconds: float, batches: int, folder: Path) -> None:
    stream: Any = STREAMS[operator]
    pace = getattr(stream, pace_name)
    spark = start_session(folder, pace.retained)
    notes = Notes(spark, folder / "batches.jsonl")
    query = start_query(stream.changes(spark, pace, UID), folder)
    ends_s, collects_s = inf, monotonic()
    while monotonic() < ends_s and notes.last < batches and not query.awaitTermination(POLL_S):
        if monotonic() >= collects_s:
            collects_s = monotonic() + COLLECT_S
            notes.collect()
        notes.take(query)
        if notes.last >= 0:
            ends_s = min(ends_s, monotonic() + seconds)
    query.stop()
    notes.take(query)
    error = query.exception()
    if error is not None:
        raise error
    spark.stop()


if __name__ == "__main__":
    _, operator, pace, seconds, batches, folder = sys.argv
    main(operator, pace, float(seconds), int(batches), Path(folder))

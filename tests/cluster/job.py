"""A job as people submit it to a cluster.

It reads `events` and writes `results`, and `report.json`: what it counted, where its package came
from, and what each state partition holds.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import idlestate
from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.checkpoint.shard_partitions import spark_partition
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import committed_batch
from idlestate.pipeline.checkpoint.state_store_shards import read_shards

UID = "clicks"


def main() -> None:
    checkpoint = str(Path("checkpoint").absolute())
    spark = idlestate.configure(SparkSession.builder.getOrCreate())
    clicks = (
        spark.readStream.schema("event_time timestamp, user long")
        .option("maxFilesPerTrigger", 2)
        .parquet(str(Path("events").absolute()))
    )
    changes = idlestate.retain(
        clicks,
        key="user",
        event_time="event_time",
        delay="10m",
        aggregates={"n": "count"},
        policy=idlestate.Policy(idle_min_ms=1_800_000, idle_max_ms=2_700_000),
        uid=UID,
    )
    writer = changes.writeStream.option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start(str(Path("results").absolute()))
    query.awaitTermination()
    lives = idlestate.read_state(spark, checkpoint).select("user", "n").collect()
    found = {
        "lives": sorted([row.user, row.n] for row in lives),
        "places": places_of_package(spark),
        "partitions": held_by_partition(spark, checkpoint),
    }
    Path("report.json").write_text(json.dumps(found))


def places_of_package(spark: SparkSession) -> list[str]:
    """Where the driver and the tasks have the package from."""

    def locate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import idlestate

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"place": [str(idlestate.__file__)]})

    tasks = spark.range(0, 4, 1, 4).mapInArrow(locate, "place string")
    return sorted({str(idlestate.__file__), *(row.place for row in tasks.collect())})


def held_by_partition(spark: SparkSession, checkpoint: str) -> list[dict[str, int]]:
    """Lives and bytes of the shards in each state partition."""
    folder = Folder(checkpoint)
    partitions = read_layout(folder, UID).state_partitions
    held = [{"rows": 0, "bytes": 0} for _ in range(partitions)]
    for state in read_shards(spark, checkpoint, UID, committed_batch(folder)):
        mine = held[spark_partition(state.shard, partitions)]
        mine["rows"] += state.live_keys
        mine["bytes"] += sum(file.bytes for file in state.runs)
    return held


if __name__ == "__main__":
    main()

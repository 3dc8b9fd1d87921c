"""A job of one's own over the input of the crash suite, to its end.

    python tests/crash/own_job.py CONFIG SINK

It does what `idlestate run CONFIG` does, with another sink in place of the configured ones: `file`
and `table` are Spark's own file sink, by path and by table, `function` is one for `foreachBatch`.
Everything is in `changes` beside the checkpoint.
"""

import sys
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from idlestate import retain, run_to_end
from idlestate.config.loading import load_config
from idlestate.pipeline.sources import read_events
from idlestate.service.spark_session import start_spark

CHANGES = "changes"


def main(config_path: str, sink: str) -> None:
    config = load_config(config_path)
    (uid,) = config.pipelines
    pipeline = config.pipelines[uid]
    checkpoint = Path(pipeline.checkpoint)
    spark = start_spark(pipeline.state_partitions, checkpoint.parent.parent / "own.spark.log")
    events = read_events(spark, pipeline.source, pipeline.event_time)
    changes = retain(
        events.frame,
        key=list(pipeline.key),
        aggregates=pipeline.aggregates,
        uid=uid,
        event_time=pipeline.event_time,
        delay=f"{pipeline.delay_ms}ms",
        policy=config.policy_for(uid),
        malformed=events.malformed,
        rejects=True,
        shards=pipeline.shards,
    )
    writer = changes.writeStream.option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(availableNow=True)
    run_to_end(partial(SINKS[sink], writer, str(checkpoint.parent / CHANGES)))


def to_files(writer: DataStreamWriter, place: str) -> StreamingQuery:
    return writer.start(place)


def to_table(writer: DataStreamWriter, place: str) -> StreamingQuery:
    return writer.format("parquet").option("path", place).toTable(CHANGES)


def to_function(writer: DataStreamWriter, place: str) -> StreamingQuery:
    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(f"{place}/batch={batch_id}")

    return writer.foreachBatch(write).start()


SINKS = {"file": to_files, "table": to_table, "function": to_function}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

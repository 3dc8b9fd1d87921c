"""A job of one's own over the input of the crash suite, to its end.

    python tests/crash/own_job.py CONFIG SINK [OPERATOR]

With `retain` it does what `idlestate run CONFIG` does, with another sink in place of the configured
ones: `file` and `table` are Spark's own file sink, by path and by table, `function` is one for
`foreachBatch`. Other operators take the same input. All rows are in `changes` beside the
checkpoint.
"""

import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from idlestate import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    Policy,
    co_process,
    deduplicate,
    hopping,
    join,
    join_asof,
    process,
    retain,
    run_to_end,
    session,
)
from idlestate.config.loading import load_config
from idlestate.config.pipeline_settings import Pipeline
from idlestate.pipeline.input_files import Events, read_events
from idlestate.retention.policy import UpdateType
from idlestate.service.spark_session import start_spark
from idlestate.state import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor

CHANGES = "changes"
PAUSE_MS = 10 * 60_000
RECENT_MS = 15 * 60_000
FIRST_PRICE = 500
"""Rows with smaller amounts are the left input of joins, the others the right one."""
EARLIEST_MS, LATEST_MS = -10 * 60_000, 30 * 60_000
"""Between the rows of a pair."""
LEFT_KEPT_MS, RIGHT_KEPT_MS = 40 * 60_000, 15 * 60_000
"""For how long rows of a join without an interval are kept."""
GAP_MS = 30 * 60_000
SIZE_MS, SLIDE_MS, FIRE_AFTER_MS = 60 * 60_000, 20 * 60_000, 60_000
LIFETIME_MS = 90 * 60_000
"""For how long a key is blocked at most, though duplicates come."""


class Visits(KeyedProcessFunction):
    """Counts a user's rows, and says of each pause what came shortly before it."""

    count = ValueStateDescriptor(name="count", value_type=pa.int64(), default=0)
    recent = MapStateDescriptor(
        name="recent",
        key_type=pa.int64(),
        value_type=pa.int64(),
        ttl=StateTtlConfig(ttl_ms=RECENT_MS),
    )

    def process_element(self, row: Any, ctx: Any) -> Any:
        count = ctx.state(self.count)
        count.update(count.value() + 1)
        ctx.state(self.recent).put(row.amount % 10, row.amount)
        ctx.timer("pause", ctx.timestamp_ms + PAUSE_MS)
        if count.value() % 4 == 0:
            yield ctx.key, f"row {count.value()}", ctx.timestamp_ms

    def on_timer(self, name: str | None, ctx: Any) -> Any:
        yield ctx.key, f"{name} {sorted(ctx.state(self.recent).entries())}", ctx.timestamp_ms

    def on_expire(self, ctx: Any) -> Any:
        yield ctx.key, f"end {ctx.state(self.count).value()}", ctx.timestamp_ms


class Shop(KeyedCoProcessFunction):
    """The same of rows with small amounts; the others are prices, told of at pauses too."""

    count, recent = Visits.count, Visits.recent
    process_element1 = Visits.process_element
    on_timer, on_expire = Visits.on_timer, Visits.on_expire

    def process_element2(self, row: Any, ctx: Any) -> Any:
        ctx.state(self.recent).put(row.price % 10, row.price)
        yield ctx.key, f"price {row.price} at {ctx.state(self.count).value()}", ctx.timestamp_ms


@dataclass(frozen=True)
class Job:
    """The pipeline of a configuration, to be run by one operator."""

    spark: SparkSession
    uid: str
    pipeline: Pipeline
    policy: Policy

    def events(self) -> Events:
        return read_events(self.spark, self.pipeline.source, self.pipeline.event_time)

    @property
    def common(self) -> dict[str, Any]:
        """Arguments of every operator."""
        return {
            "uid": self.uid,
            "event_time": self.pipeline.event_time,
            "delay": f"{self.pipeline.delay_ms}ms",
            "shards": self.pipeline.shards,
            "backend": self.pipeline.backend,
        }

    @property
    def key(self) -> list[str]:
        return list(self.pipeline.key)


def retained(job: Job, **more: Any) -> DataFrame:
    events = job.events()
    return retain(
        events.frame,
        **job.common,
        key=job.key,
        aggregates=job.pipeline.aggregates,
        malformed=events.malformed,
        rejects=True,
        **({"policy": job.policy} | more),
    )


def processed(job: Job) -> DataFrame:
    events = job.events()
    return process(
        events.frame,
        **job.common,
        key=job.key,
        policy=job.policy,
        function=Visits(),
        columns=["amount"],
        output="user string, what string, at_ms bigint",
        malformed=events.malformed,
    )


def co_processed(job: Job) -> DataFrame:
    return co_process(
        *two_inputs(job),
        **job.common,
        key=job.key,
        right_event_time="at",
        policy=job.policy,
        function=Shop(),
        columns=["amount"],
        right_columns=["price"],
        output="user string, what string, at_ms bigint",
    )


def deduplicated(job: Job, keep: str, **policy: Any) -> DataFrame:
    events = job.events()
    return deduplicate(
        events.frame,
        **job.common,
        key=job.key,
        keep=keep,
        policy=replace(job.policy, **policy),
        malformed=events.malformed,
        rejects=True,
    )


def two_inputs(job: Job) -> tuple[DataFrame, DataFrame]:
    """Rows with small amounts, and the others as prices."""
    small, large = job.events().frame, job.events().frame
    prices = large.where(f"amount >= {FIRST_PRICE}")
    return (
        small.where(f"amount < {FIRST_PRICE}").select("event_time", "user", "amount"),
        prices.selectExpr("event_time AS at", "user", "amount AS price"),
    )


def joined(job: Job, **how: Any) -> DataFrame:
    return join(
        *two_inputs(job), **job.common, on=job.key, right_event_time="at", how="full", **how
    )


def joined_as_of(job: Job) -> DataFrame:
    return join_asof(
        *two_inputs(job),
        **job.common,
        on=job.key,
        version_event_time="at",
        how="left",
        order="price",
        policy=job.policy,
    )


OPERATORS = {
    "retain": retained,
    "process": processed,
    "co_process": co_processed,
    "join": partial(joined, between=(f"{EARLIEST_MS}ms", f"{LATEST_MS}ms")),
    "equi_join": partial(
        joined,
        policy=Policy(ttl_ms=LEFT_KEPT_MS),
        right_policy=Policy(ttl_ms=RIGHT_KEPT_MS),
    ),
    "join_asof": joined_as_of,
    "session": partial(retained, policy=None, window=session(f"{GAP_MS}ms")),
    "hopping": partial(
        retained,
        policy=None,
        window=hopping(f"{SIZE_MS}ms", f"{SLIDE_MS}ms"),
        fire_after=f"{FIRE_AFTER_MS}ms",
    ),
    "deduplicate_first": partial(
        deduplicated,
        keep="first",
        update=UpdateType.ON_READ_AND_WRITE,
        max_lifetime_ms=LIFETIME_MS,
    ),
    "deduplicate_last": partial(deduplicated, keep="last"),
}


def main(config_path: str, sink: str, operator: str = "retain") -> None:
    config = load_config(config_path)
    (uid,) = config.pipelines
    pipeline = config.pipelines[uid]
    checkpoint = Path(pipeline.checkpoint)
    spark = start_spark(pipeline.state_partitions, checkpoint.parent.parent / "own.spark.log")
    changes = OPERATORS[operator](Job(spark, uid, pipeline, config.policy_for(uid)))
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
    main(*sys.argv[1:])

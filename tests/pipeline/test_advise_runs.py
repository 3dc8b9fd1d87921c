"""What the advisor says of real logs is what a run of Spark then does with them."""

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from idlestate import Policy, advise, retain
from idlestate.metrics.newest_shard_reports import reports_in
from idlestate.retention.policy import FOREVER_MS
from tests.pipeline.streams import TIMESTAMP, Feed, shards

MINUTE_MS = 60_000
UID = "advised"


class Case(NamedTuple):
    """A real log, its key, an idle window in minutes, and how it is cut into batches."""

    log: str
    key: str
    low: int
    high: int
    batch_rows: int
    delay_minutes: int
    rows: int | None = None
    """The first rows of the log; None: all."""


def read(case: Case, folder: Path) -> pa.Table:
    if case.log.endswith(".parquet"):
        log = pq.read_table(folder / case.log, columns=[case.key, "event_time"])
        return log.set_column(1, "event_time", log.column("event_time").cast(TIMESTAMP))
    with gzip.open(folder / case.log, "rt", encoding="utf-8") as file:
        edits = [json.loads(line) for line in file]
    times = [datetime.fromisoformat(edit["event_time"]) for edit in edits]
    keys = [edit[case.key] for edit in edits]
    return pa.table({case.key: keys, "event_time": pa.array(times, TIMESTAMP)})


def drop(frame: DataFrame, batch_id: int) -> None:
    """Compute a batch and keep nothing of it."""
    frame.write.format("noop").mode("overwrite").save()


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "remember_ms"),
    [
        (Case("wikipedia_edits.json.gz", "user", 30, 45, 5_000, 10), FOREVER_MS),
        (Case("wikipedia_edits.json.gz", "user", 30, 30, 7_000, 0, rows=20_000), None),
        (Case("globo_clicks.parquet", "session_id", 30, 30, 100_000, 0, rows=600_000), FOREVER_MS),
        (Case("globo_clicks.parquet", "session_id", 30, 45, 100_000, 10, rows=600_000), None),
    ],
    ids=["user-forever", "user-by-default", "session_id-forever", "session_id-by-default"],
)
def test_advice_is_what_a_run_does(
    spark: SparkSession, data_dir: Path, tmp_path: Path, case: Case, remember_ms: int | None
) -> None:
    log = read(case, data_dir).slice(0, case.rows)
    advice = advise(
        log,
        key=case.key,
        event_time="event_time",
        windows=[f"{case.low}m/{case.high}m"],
        batches=case.batch_rows,
        delay=f"{case.delay_minutes}m",
    )
    (advised,) = advice.windows

    feed = Feed(tmp_path / "input", log.schema)
    for first in range(0, len(log), case.batch_rows):
        feed.add(log.slice(first, case.batch_rows))
    changes = retain(
        feed.stream(spark),
        key=case.key,
        event_time="event_time",
        delay=f"{case.delay_minutes}m",
        aggregates={"n": "count"},
        policy=Policy(
            idle_min_ms=case.low * MINUTE_MS,
            idle_max_ms=case.high * MINUTE_MS,
            min_gap_ms=0,
            remember_ms=remember_ms,
        ),
        uid=UID,
    )
    checkpoint = tmp_path / "checkpoint"
    writer = changes.writeStream.foreachBatch(drop).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()

    held = [
        sum(each.live_keys for each in reports_in(json.loads(progress.json), UID) or [])
        for progress in query.recentProgress
        if progress.numInputRows
    ]
    assert list(advised.held_keys) == held
    assert len(held) == -(-len(log) // case.batch_rows)
    records = shards(spark, checkpoint, UID)
    counts = {
        "created": sum(record.tally.created for record in records),
        "expired": sum(record.tally.expired[2] for record in records),
        "returning": sum(record.tally.returning_keys for record in records),
        "open": sum(record.live_keys for record in records),
        "late": sum(record.rows.late for record in records),
    }
    by_default = advised.returning_remembered
    assert counts == {
        "created": advised.created,
        "expired": advised.expired,
        "returning": advised.returning if remember_ms == FOREVER_MS else by_default,
        "open": advised.created - advised.expired,
        "late": advice.late_rows,
    }
    assert by_default < advised.returning

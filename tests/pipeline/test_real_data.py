"""A day of real edits of Wikipedia, by user, through the whole stack: JSON in, states back."""

import gzip
import json
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import Policy, retain
from idlestate.retention.policy import FOREVER_MS
from tests.oracle.comparing import differences
from tests.oracle.idle_oracle import AGGREGATES, IdleOracle
from tests.pipeline.streams import FILES_PER_BATCH, Sink, last_rows, plain_rows, run

UID = "edits-by-user"
MINUTE_MS = 60_000
MIN_MS, MAX_MS, DELAY_MS = 30 * MINUTE_MS, 45 * MINUTE_MS, 10 * MINUTE_MS
BATCHES = 4
SCHEMA = "event_time timestamp, user string, page string, delta long"


@pytest.mark.long
def test_wikipedia_edits_by_user_equal_the_oracle(
    spark: SparkSession, data_dir: Path, tmp_path: Path
) -> None:
    with gzip.open(data_dir / "wikipedia_edits.json.gz", "rt", encoding="utf-8") as file:
        lines = file.readlines()
    parsed = [json.loads(line) for line in lines]
    oracle = IdleOracle(MIN_MS, MAX_MS)
    oracle.take(
        ((edit["user"],), milliseconds(edit["event_time"]), edit["delta"], edit["page"])
        for edit in parsed
    )
    oracle.sweep(DELAY_MS)
    assert oracle.returning_keys > 4000

    # One file as it comes would be one batch and one task.
    source, checkpoint, sink = tmp_path / "edits", tmp_path / "checkpoint", Sink()
    size = -(-len(lines) // BATCHES)
    parts = [lines[first : first + size] for first in range(0, len(lines), size)]
    for part in parts[: BATCHES // 2]:
        add_files(source, part)
    run(by_user(edits(spark, source)), checkpoint, sink)
    for part in parts[BATCHES // 2 :]:
        add_files(source, part)
    run(by_user(edits(spark, source)), checkpoint, sink)

    wrong = differences(
        oracle, sink.table, spark, checkpoint, uid=UID, keys=["user"], rows=len(lines)
    )
    assert not wrong, "\n".join(wrong)
    last = last_rows(plain_rows(sink.table, ["user"]))
    assert len(last) == len(oracle.ended) + len(oracle.open)
    still_open = [
        (row["key"], row["created_at"], row["last_access"], *(row[name] for name in AGGREGATES))
        for row in last
        if row["change"] == "update"
    ]
    assert sorted(still_open) == sorted((*life[:3], *life[4:]) for life in oracle.lives)


def milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def add_files(folder: Path, lines: Sequence[str]) -> None:
    """One batch of files, lines dealt out over them."""
    folder.mkdir(exist_ok=True)
    number = len(list(folder.iterdir()))
    for at in range(FILES_PER_BATCH):
        path = folder / f"{number + at:03}.json.gz"
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.writelines(lines[at::FILES_PER_BATCH])
        os.utime(path, (1_600_000_000 + number + at,) * 2)


def edits(spark: SparkSession, folder: Path) -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES_PER_BATCH)
    return reader.json(str(folder))


def by_user(events: DataFrame) -> DataFrame:
    return retain(
        events.withColumns({"amount": F.col("delta"), "label": F.col("page")}),
        key="user",
        event_time="event_time",
        delay="10m",
        aggregates=AGGREGATES,
        policy=Policy(idle_min_ms=MIN_MS, idle_max_ms=MAX_MS, remember_ms=FOREVER_MS),
        uid=UID,
    )

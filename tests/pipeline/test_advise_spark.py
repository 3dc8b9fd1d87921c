"""The advisor on Spark says what it says in memory, and what a run then does."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from idlestate import Advice, advise
from idlestate.errors import RefusedError

ORIGIN_MS = 1_500_000_000_000
SCHEMA = "k string, n int, at timestamp"
WINDOWS = ["1s", "30m", "7s/30s", "2m/1h"]


def random_log(seed: int, rows: int) -> pa.Table:
    """Busy and rare keys, nulls among keys and times, and times that many events share."""
    chance = np.random.default_rng(seed)
    times = ORIGIN_MS + chance.integers(0, 3_600, rows) * chance.choice([1, 1000], rows)
    names = chance.zipf(1.3, rows) % 500
    return pa.table(
        {
            "k": pa.array([None if name == 7 else f"key-{name}" for name in names.tolist()]),
            "n": pa.array(chance.integers(0, 2, rows), pa.int32(), mask=chance.random(rows) < 0.1),
            "at": pa.array(times, pa.timestamp("ms", "UTC"), mask=chance.random(rows) < 0.01),
        }
    )


def frame(spark: SparkSession, log: pa.Table, folder: Path) -> DataFrame:
    import pyarrow.parquet as pq

    folder.mkdir()
    for at in range(3):
        pq.write_table(log.slice(at * len(log) // 3, len(log) // 3 + 1), folder / f"{at}.parquet")
    return spark.read.parquet(str(folder))


def both(
    spark: SparkSession, log: pa.Table, folder: Path, **arguments: Any
) -> tuple[Advice, Advice]:
    events = frame(spark, log, folder)
    again = pa.Table.from_batches(events.toArrow().to_batches())
    given = {"key": ["k", "n"], "event_time": "at", "windows": WINDOWS} | arguments
    return advise(events, **given), advise(again, **given)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_advice_on_spark_equals_advice_in_memory(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    there, here = both(
        spark,
        random_log(seed, 3000),
        tmp_path / "log",
        key_budget=1200,
        batches="5m",
        delay="10s",
        null_key=["keep", "reject"][seed % 2],
    )
    assert there == here
    assert here.rejected_rows
    assert len(here.windows[0].held_keys) > 10


@pytest.mark.long
def test_nothing_stays_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    cached = spark._jsparkSession.sharedState().cacheManager()
    assert cached.isEmpty()
    both(spark, random_log(3, 200), tmp_path / "log")
    assert cached.isEmpty()
    long = spark.range(10_001).selectExpr("id AS k", "timestamp_millis(id + 86400000) AS at")
    with pytest.raises(RefusedError, match="10,001 batches are too many"):
        advise(long, key="k", event_time="at", batches="1ms")
    assert cached.isEmpty()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"key": "x"}, "key column 'x' not found; available: k, n, at"),
        ({"event_time": "n"}, "event time column 'n' is of type int;"),
        ({"batches": 10}, "rows of a Spark DataFrame have no order"),
        ({"event_time": "k"}, r"no row has a usable event time in k \(2 rejected\)"),
    ],
)
def test_frames_that_cannot_be_used_are_named(
    spark: SparkSession, changed: dict[str, Any], said: str
) -> None:
    events = spark.createDataFrame([("a", 1, None), ("b", 2, None)], SCHEMA)
    with pytest.raises(RefusedError, match=said):
        advise(events, **({"key": "k", "event_time": "at"} | changed))


def test_streams_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path))
    with pytest.raises(RefusedError, match="events is a stream"):
        advise(stream, key="k", event_time="at")

"""The advisor on 40 windows: seconds, and how they grow with the log.

    advise.py [--rows N] [--spark] [--quick]

The log is made of sessions: three events on average, pauses from seconds to days, in order of time.
Every figure is the median of three rounds. The aim goes by processor time, which other programs on
the machine disturb less. On Spark (`--spark`) the time is that of the clock, with the session
started before.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from idlestate import advise

ROWS = 3_000_000
AIM_S = 3.0
ROUNDS = 3
WINDOWS = [f"{seconds}s" for seconds in np.geomspace(60, 5 * 86_400, 40).astype(int)]
START_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def make_log(rows: int) -> pa.Table:
    """Sessions that begin over sixteen days, and the events of each."""
    chance = np.random.default_rng(7)
    session = np.sort(chance.integers(0, rows // 3, rows))
    pause_ms = (chance.lognormal(np.log(90), 2.0, rows) * 1000).astype(np.int64)
    first = np.append(True, session[1:] != session[:-1])
    pause_ms[first] = 0
    begin_ms = START_MS + chance.integers(0, 16 * DAY_MS, rows // 3)
    elapsed = np.cumsum(pause_ms)
    places = np.flatnonzero(first)
    since = elapsed - np.repeat(elapsed[places], np.diff(np.append(places, rows)))
    t_ms = begin_ms[session] + since
    in_turn = np.argsort(t_ms)
    times = pa.array(t_ms[in_turn], pa.timestamp("ms", "UTC"))
    return pa.table({"session": session[in_turn], "at": times})


def timed(clock: Callable[[], float], events: Any) -> float:
    """The median time of a round, in seconds."""
    rounds = []
    for _ in range(ROUNDS):
        start = clock()
        advise(events, key="session", event_time="at", windows=WINDOWS)
        rounds.append(clock() - start)
    return statistics.median(rounds)


def in_memory(rows: int) -> None:
    print(f"{'rows':>12} {'clock s':>8} {'processor s':>12} {'rows/s':>12}")
    for count in (rows // 4, rows // 2, rows):
        log = make_log(count)
        clock, processor = timed(time.perf_counter, log), timed(time.process_time, log)
        told = f"{count:12,} {clock:8.2f} {processor:12.2f} {count / processor:12,.0f}"
        if count == ROWS:
            told += f"   aim {AIM_S:.0f} s: {'met' if processor <= AIM_S else 'MISSED'}"
        print(told)


def on_spark(rows: int) -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - takes a second

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", 8).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print(f"{'rows on Spark':>14} {'clock s':>8} {'rows/s':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for count in (rows // 4, rows // 2, rows):
            file = str(Path(folder, f"{count}.parquet"))
            pq.write_table(make_log(count), file)
            clock = timed(time.perf_counter, spark.read.parquet(file))
            print(f"{count:14,} {clock:8.1f} {count / clock:12,.0f}")
    spark.stop()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=ROWS)
    options.add_argument("--spark", action="store_true", help="on Spark too")
    options.add_argument("--quick", action="store_true", help="30,000 rows")
    given = options.parse_args()
    rows = 30_000 if given.quick else given.rows
    in_memory(rows)
    if given.spark:
        on_spark(rows)


if __name__ == "__main__":
    main()

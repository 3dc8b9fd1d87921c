"""What metrics cost the main job: `retain` with `serve_metrics` and a scrape every second, and
without, by turns.

    served_metrics.py [--quick]

The query runs twice over the same input, and a batch that had metrics in one run had none in the
other. Metrics are served by the driver's Python process, and by the threads of its JVM that call
listeners and answer Python: their processor time, the scraper's included, is compared, and what
metrics add to it is held against the processor time of all processes, whose noise is larger than
what is looked for. Copies of the shards' records, from which `explain` reads without Spark, are
written in every batch; what they cost is measured by itself and added.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from beside import SCRAPE_EVERY_S, beside
from contestants import UID, retain_event
from idlestate import serve_metrics
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.record_copies import newest_copy, write_copy
from inputs import make_input
from recipes import Draw, Recipe, Windows, nothing_due
from scale import FULL, QUICK
from session import LOCAL, read_events, start_session
from tables import verdict
from usage import Usage, threads_ms

AIM = 1.01
"""Processor time of a batch with metrics and copies, times that without."""
BATCHES = 40
TURN_BATCHES = 8
"""Batches between a start and an end of `serve_metrics`."""
SAMPLE_S = 0.1
COPIES = 20
DRAWS = 2_000
SEED = 20_250_303


SERVING_THREADS = ("spark-listener-", "Thread-")
"""Of the JVM: those that call listeners, and those of Py4J."""


class Spent(NamedTuple):
    """Processor time of a batch."""

    all_ms: float
    """Of all processes."""
    serving_ms: float
    """Of what serves metrics when they are served: it does other work too."""


Taken = dict[bool, dict[int, Spent]]
"""By batch, with metrics (True) and without."""


@dataclass(slots=True)
class ServingUsage(Usage):
    """Processor time of all processes, and of what serves metrics."""

    serving: list[tuple[float, float]] = field(default_factory=list)
    """Unix time in seconds; processor milliseconds so far."""

    def look(self) -> None:
        """Look at this process and everything below it."""
        jvms = [each.pid for each in self.sample(os.getpid()) if each.is_jvm]
        threads = sum(threads_ms(pid, SERVING_THREADS) for pid in jvms)
        own = (time.process_time() - time.thread_time()) * 1000  # without what measures
        self.serving.append((time.time(), own + threads))

    def spent(self, first_s: float, stop_s: float) -> Spent:
        """Processor time between two Unix times."""
        serving = np.interp([first_s, stop_s], *np.array(self.serving).T)
        return Spent(sum(self.processor_ms(first_s, stop_s)), float(np.diff(serving)[0]))


@dataclass(frozen=True, slots=True)
class Turn:
    """A time in which metrics were served, or were not."""

    served: bool
    begin_s: float
    end_s: float


def main() -> None:
    """Run the query and print what its batches took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small batches, few of them")
    scale, batches = (QUICK, 16) if parser.parse_args().quick else (FULL, BATCHES)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    recipe = Recipe(
        draw=Draw.UNIFORM, rows=scale.rows, batches=batches, ids=scale.ids, prelude=scale.prelude
    )
    scratch = Path(tempfile.mkdtemp(prefix="idlestate-bench-"))
    try:
        folder = make_input(recipe, scratch / "input")
        spark = start_session(scratch, LOCAL)
        runs = [
            run(spark, folder, nothing_due(recipe), scratch / name, recipe.prelude + scale.warm_up)
            for name in ("first", "second")
        ]
        spark.stop()
        report(pairs(*runs), copies_ms(scratch / "second", scratch / "copies"))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run(
    spark: SparkSession, folder: Path, windows: Windows, checkpoint: Path, warm_up: int
) -> Taken:
    """Run the query; the later batches. The first run begins without metrics, the next with."""
    query = (
        retain_event(*read_events(spark, folder), windows)
        .writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    usage = ServingUsage()
    turns = by_turns(spark, query, usage, begin_served=checkpoint.name == "second")
    query.awaitTermination()
    batches = [batch for batch in query.recentProgress if batch.numInputRows]
    return taken_ms(batches[warm_up:], turns, usage)


def by_turns(
    spark: SparkSession, query: StreamingQuery, usage: ServingUsage, *, begin_served: bool
) -> list[Turn]:
    """Serve metrics for some batches, then not for as many, until the query ends."""
    turns: list[Turn] = []
    while query.isActive:
        served = begin_served == (len(turns) % 2 == 0)
        if served:
            with serve_metrics(spark, 0) as metrics:
                assert metrics.url is not None
                begin_s = time.time()  # a job starts to serve once
                with beside(partial(_scrape, metrics.url), SCRAPE_EVERY_S):
                    _wait(query, usage, len(turns))
        else:
            begin_s = time.time()
            _wait(query, usage, len(turns))
        turns.append(Turn(served, begin_s, time.time()))
    return turns


def _wait(query: StreamingQuery, usage: ServingUsage, turn: int) -> None:
    """Wait for the last batch of a turn, and watch the processes meanwhile."""
    while query.isActive and _batch_id(query) < (turn + 1) * TURN_BATCHES:
        usage.look()
        time.sleep(SAMPLE_S)
    usage.look()


def _batch_id(query: StreamingQuery) -> int:
    last = query.lastProgress
    return last.batchId if last is not None else -1


def _scrape(url: str) -> None:
    with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310 - our own
        reply.read()


def taken_ms(batches: Sequence[Any], turns: Sequence[Turn], usage: ServingUsage) -> Taken:
    """Processor time of each batch that lies whole in a turn, by the kind of the turn."""
    taken: Taken = {False: {}, True: {}}
    for batch in batches:
        begin_s = datetime.fromisoformat(batch.timestamp).timestamp()
        end_s = begin_s + batch.durationMs["triggerExecution"] / 1000
        for turn in turns:
            if turn.begin_s <= begin_s and end_s <= turn.end_s:
                taken[turn.served][batch.batchId] = usage.spent(begin_s, end_s)
    return taken


def pairs(first: Taken, second: Taken) -> list[tuple[Spent, Spent]]:
    """Of each batch that had metrics in one run alone: its time without them and with them."""
    return [
        (without[batch_id], served[batch_id])
        for without, served in ((first[False], second[True]), (second[False], first[True]))
        for batch_id in without.keys() & served.keys()
    ]


def copies_ms(checkpoint: Path, scratch: Path) -> float:
    """Processor milliseconds of writing the copies of a batch: one per shard."""
    records = []
    for shard in (checkpoint / "idlestate" / UID / "runs").iterdir():
        record = newest_copy(Folder(str(shard)), sys.maxsize)
        assert record is not None, shard
        records.append(record)
    folder = Folder(str(scratch))
    began_s = time.process_time()
    for number in range(COPIES):
        for at, record in enumerate(records):
            write_copy(folder, f"{number}-{at}", record.encode())
    return (time.process_time() - began_s) * 1000 / COPIES


def times_without(spent: Sequence[tuple[Spent, Spent]], copies: float) -> float:
    """Processor time of a batch with metrics and copies, times that without."""
    (all_ms, serving_ms), (_, served_ms) = np.array(spent).mean(axis=0)
    without_ms = all_ms - copies
    return float((without_ms + served_ms - serving_ms + copies) / without_ms)


def report(found: Sequence[tuple[Spent, Spent]], copies: float) -> None:
    """Print the ratio and its standard error, by drawing the pairs again."""
    spent_ms = np.array(found)
    draw = np.random.default_rng(SEED)
    again = [times_without(draw.choice(spent_ms, len(spent_ms)), copies) for _ in range(DRAWS)]
    (all_ms, serving_ms), (_, served_ms) = spent_ms.mean(axis=0)
    ratio = times_without(found, copies)
    print(
        f"processor time of {len(found)} batches, each in two runs: {all_ms:.0f} ms without "
        f"metrics; of what serves them {serving_ms:.1f} ms without, {served_ms:.1f} ms with "
        f"metrics and a scrape a second\n"
        f"copies of the records: {copies:.1f} ms of each ({copies / all_ms:.2%})\n"
        f"with metrics and copies, times without: {ratio:.4f}, "
        f"standard error {np.std(again):.4f}   aim {AIM:g}: {verdict(ratio <= AIM)}"
    )


if __name__ == "__main__":
    main()

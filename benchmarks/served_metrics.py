"""What metrics cost the main job: `retain` with `serve_metrics` and a scrape every second, and
without, by turns.

    served_metrics.py [--quick]

The query runs twice over the same input, and a batch that had metrics in one run had none in the
other: merges, which make some batches dearer, count on both sides. Processor time of all processes
is compared, the scraper's included. Copies of the shards' records, from which `explain` reads
without Spark, are written in every batch; what they cost is measured by itself and added.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from beside import SCRAPE_EVERY_S, beside
from contestants import UID, retain_event
from idlestate import serve_metrics
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.record_files import newest_copy, write_copy
from inputs import make_input
from jobs import FULL, QUICK
from recipes import Draw, Recipe, Windows, nothing_due
from session import LOCAL, read_events, start_session
from tables import verdict
from usage import Usage

AIM = 1.01
"""Processor time of a batch with metrics and copies, times that without."""
BATCHES = 40
TURN_BATCHES = 4
"""Batches between a start and an end of `serve_metrics`."""
SAMPLE_S = 0.1
COPIES = 20
DRAWS = 2_000
SEED = 20_250_303


Taken = dict[bool, dict[int, float]]
"""Processor milliseconds by batch, with metrics (True) and without."""


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
    usage = Usage()
    turns = by_turns(spark, query, usage, begin_served=checkpoint.name == "second")
    query.awaitTermination()
    batches = [batch for batch in query.recentProgress if batch.numInputRows]
    return taken_ms(batches[warm_up:], turns, usage)


def by_turns(
    spark: SparkSession, query: StreamingQuery, usage: Usage, *, begin_served: bool
) -> list[Turn]:
    """Serve metrics for some batches, then not for as many, until the query ends."""
    turns: list[Turn] = []
    while query.isActive:
        served = begin_served == (len(turns) % 2 == 0)
        begin_s = time.time()
        if served:
            with serve_metrics(spark, 0) as metrics:
                assert metrics.url is not None
                with beside(partial(_scrape, metrics.url), SCRAPE_EVERY_S):
                    _wait(query, usage, len(turns))
        else:
            _wait(query, usage, len(turns))
        turns.append(Turn(served, begin_s, time.time()))
    return turns


def _wait(query: StreamingQuery, usage: Usage, turn: int) -> None:
    """Wait for the last batch of a turn, and watch the processes meanwhile."""
    while query.isActive and _batch_id(query) < (turn + 1) * TURN_BATCHES:
        usage.sample(os.getpid())
        time.sleep(SAMPLE_S)
    usage.sample(os.getpid())


def _batch_id(query: StreamingQuery) -> int:
    last = query.lastProgress
    return last.batchId if last is not None else -1


def _scrape(url: str) -> None:
    with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310 - our own
        reply.read()


def taken_ms(batches: Sequence[Any], turns: Sequence[Turn], usage: Usage) -> Taken:
    """Processor milliseconds of each batch that lies whole in a turn, by the kind of the turn."""
    taken: Taken = {False: {}, True: {}}
    for batch in batches:
        begin_s = datetime.fromisoformat(batch.timestamp).timestamp()
        end_s = begin_s + batch.durationMs["triggerExecution"] / 1000
        for turn in turns:
            if turn.begin_s <= begin_s and end_s <= turn.end_s:
                taken[turn.served][batch.batchId] = sum(usage.processor_ms(begin_s, end_s))
    return taken


def pairs(first: Taken, second: Taken) -> list[tuple[float, float]]:
    """Of each batch that had metrics in one run alone: milliseconds without them and with them."""
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


def report(found: Sequence[tuple[float, float]], copies: float) -> None:
    """Print the ratio and its standard error, by drawing the pairs again."""
    pairs_ms = np.array(found)
    draw = np.random.default_rng(SEED)
    again = [draw.choice(pairs_ms, len(pairs_ms)).sum(axis=0) for _ in range(DRAWS)]
    error = np.std([served / without for without, served in again])
    without_ms, served_ms = pairs_ms.mean(axis=0)
    ratio = served_ms / (without_ms - copies)
    print(
        f"processor time of {len(pairs_ms)} batches, each in two runs: {without_ms:.0f} ms without "
        f"metrics, {served_ms:.0f} ms with metrics and a scrape a second\n"
        f"copies of the records: {copies:.1f} ms of each ({copies / without_ms:.2%})\n"
        f"with both, times without: {ratio:.3f}, standard error {error:.3f}   "
        f"aim {AIM:g}: {verdict(ratio <= AIM)}"
    )


if __name__ == "__main__":
    main()

"""`make crash-definition N=12`: change a query's definition twice over many keys, with kills.

Two queries read the same files and change their definition after a third and after two thirds of
them; one is killed N times, the first time under each definition in its first batch. Ends with 1
when their states or rows differ.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# Behind everything else, so that no room of the project is found by its bare name first.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from idlestate import read_state
from idlestate.service.spark_session import start_spark
from tests.crash.checkpoint_view import CheckpointView
from tests.crash.crash_input import FIRST_MODIFIED_S
from tests.crash.processes import Run, pause, wait_until
from tests.crash.suite import say

FIRST_MS = 1_741_000_000_000
STEP_MS = 10 * 60_000
"""Event time that a file spans: of 24 files, lives of two hours end under each definition."""
FILES_PER_DEFINITION = 8
LONGEST_S = 2.5
"""A kill comes at most this long after its batch was planned."""
MOST_BATCHES = 3
"""A run is killed in its first batch, in its second or in its third, by turns."""
DEFINITIONS = (
    ("int", {"n": "count", "total": "sum(amount)", "page": "max_by(page, event_time)"}, {}),
    (
        "bigint",
        {"clicks": "count", "total": "sum(amount)", "top": "max(amount)"},
        {"clicks": "n"},
    ),
    (
        "bigint",
        {"clicks": "count", "paid": "sum(amount)", "seen": "count(page)", "low": "min(amount)"},
        {"paid": "total"},
    ),
)
"""The type of the column `amount`, aggregates, and the new to the old names of some."""
CONFIG = """\
version: 1
policies:
  short: {{idle: {{min: 2h, max: 3h}}}}
pipelines:
  users:
    source:
      path: {place}/input
      format: parquet
      schema: {{event_time: timestamp, user: string, page: string, amount: {kind}}}
      files_per_batch: 1
    event_time: event_time
    delay: 10m
    key: [user]
    aggregates: {{{aggregates}}}
    {renamed}
    policy: short
    sinks: {{results: {place}/results, expired: {place}/expired, rejects: {place}/rejects}}
    checkpoint: {place}/checkpoint
    state_partitions: 2
    shards: 4
"""
SINKS = ("results", "expired", "rejects")


def write_files(folder: Path, keys: int, seed: int) -> list[Path]:
    """Each file has a fifth as many rows as there are keys, drawn from all of them."""
    draw, rows = np.random.default_rng(seed), max(keys // 5, 10)
    folder.mkdir(parents=True)
    paths = []
    for number in range(FILES_PER_DEFINITION * len(DEFINITIONS)):
        definition = DEFINITIONS[number // FILES_PER_DEFINITION]
        times = FIRST_MS + number * STEP_MS + np.sort(draw.integers(0, STEP_MS, rows))
        times[:: rows // 5] -= 3 * STEP_MS  # late, but in the first files
        users = pa.array(draw.integers(0, keys, rows)).cast(pa.string())
        pages = draw.integers(0, 50, rows)
        table = pa.table(
            {
                "event_time": pa.array(times, pa.timestamp("ms", "UTC")).cast(
                    pa.timestamp("us", "UTC")
                ),
                "user": users,
                "page": pa.array(pages, mask=pages == 0).cast(pa.string()),
                "amount": pa.array(
                    draw.integers(-1000, 1000, rows),
                    pa.int32() if definition[0] == "int" else pa.int64(),
                ),
            }
        )
        paths.append(folder / f"{number:02}.parquet")
        pq.write_table(table, paths[-1])
        # Spark takes files in the order of these times.
        os.utime(paths[-1], (FIRST_MODIFIED_S + number,) * 2)
    return paths


class Query:
    """A query, its files so far and its checkpoint."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.config = place / "users.yaml"
        self.view = CheckpointView(place / "checkpoint")
        (place / "input").mkdir(parents=True)

    def define(self, number: int, files: list[Path]) -> None:
        """Give the query its next files and the definition with this number."""
        for path in files:
            shutil.copy2(path, self.place / "input")
        kind, aggregates, renamed = DEFINITIONS[number]
        self.config.write_text(
            CONFIG.format(
                place=self.place,
                kind=kind,
                aggregates=", ".join(f'{name}: "{text}"' for name, text in aggregates.items()),
                renamed=f"renamed: {{{', '.join(f'{a}: {b}' for a, b in renamed.items())}}}",
            )
        )
        if number:
            command = [sys.executable, "-m", "idlestate", "check", str(self.config)]
            command += ["--against", str(self.view.root)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def start(self) -> Run:
        return Run(self.config, self.place / "run.log")

    def finish(self) -> None:
        run = self.start()
        if run.wait() != 0:
            raise AssertionError(run.said())

    def kill(self, batches: int, after_s: float) -> str:
        """Kill a run after so many batches, so long after it has planned the next; what it hit."""
        next_batch, run = self.view.committed + 1 + batches, self.start()
        wait_until("a batch", lambda: self.view.planned >= next_batch or run.code is not None)
        pause(after_s)
        hit = "in flight" if self.view.in_flight else "between batches"
        run.kill()
        return f"batch {self.view.planned:3}, {after_s:5.2f} s into it, {hit}"


def differences(calm: Path, killed: Path, log: Path) -> Iterator[str]:
    """What is in the states and sinks of one query and not in those of the other."""
    spark, sides = start_spark(2, log), {"calm": calm, "killed": killed}
    for name in ("states", *SINKS):
        compared = duckdb.connect()
        for side, place in sides.items():
            if name == "states":
                # Runs that were killed may plan more batches without data than others.
                states = read_state(spark, str(place / "checkpoint"))
                compared.register(side, states.drop("batch_id").toArrow())
            else:
                files = f"read_parquet('{place / name}/*/*.parquet', union_by_name=true)"
                columns = "* EXCLUDE batch_id"  # which is taken from the names of folders
                compared.sql(f"CREATE VIEW {side} AS SELECT {columns} FROM {files}")
        total, lost, doubled = (
            len(compared.sql(f"FROM {rows}"))
            for rows in ("calm", "calm EXCEPT ALL FROM killed", "killed EXCEPT ALL FROM calm")
        )
        say(f"{name}: {total:,} rows, lost {lost}, doubled {doubled}")
        if lost or doubled:
            yield name
    spark.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kills", type=int, nargs="?", default=12)
    parser.add_argument("--keys", type=int, default=1_300_000)
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    draw, began_s = random.Random(words.seed), monotonic()
    with tempfile.TemporaryDirectory(prefix="idlestate-definition-") as folder:
        files = write_files(Path(folder) / "files", words.keys, words.seed)
        calm, killed = Query(Path(folder) / "calm"), Query(Path(folder) / "killed")
        for number in range(len(DEFINITIONS)):
            first = number * FILES_PER_DEFINITION
            for query in (calm, killed):
                query.define(number, files[first : first + FILES_PER_DEFINITION])
            calm.finish()
            for at in range(number, words.kills, len(DEFINITIONS)):
                batches, after_s = at // len(DEFINITIONS) % MOST_BATCHES, draw.uniform(0, LONGEST_S)
                say(f"definition {number + 1}, kill {at + 1}: {killed.kill(batches, after_s)}")
            killed.finish()
        differ = list(differences(calm.place, killed.place, Path(folder) / "read.log"))
    say(f"{words.kills} kills, {monotonic() - began_s:.0f} s: {'FAILED' if differ else 'good'}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

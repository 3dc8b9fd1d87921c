"""A sidecar that is killed over and over while a query and a writer are at it; no JVM.

The query is played: it plans batches, runs their tasks over the network (some twice, some under a
new run, as after a driver's death), and commits by a file in its commit log. The sidecar is a
process, killed at random moments and started again. In the end every life has expired, and the
records must be those of the slow reference, fed with the times at which the sidecar opened each
batch; what the writer wrote must be there once.

    python tests/crash/exchange_suite.py --backend rocksdb --kills 1000
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Behind everything else, so that no room of the project is found by its bare name first.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import pyarrow as pa

from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.client.client import SidecarClient
from idlestate.sidecar.protocol.connection import Address
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import GoneError
from idlestate.sidecar.protocol.routes import Routes
from tests.backends.law_runner import plain_rows
from tests.compare import assert_rows
from tests.reference import Record, Reference, Rule
from tests.sidecar.sidecar_process import Sidecar
from tests.sidecar.sidecar_world import (
    PARTITIONS,
    SHARDS,
    SPEC,
    TEXTS,
    UID,
    packets_of,
    policy_processing,
)

RULE = Rule(idle_min_ms=300, idle_max_ms=450, remember_ms=10_000)
KEYS = [f"key-{number}" for number in range(40)]
LONGEST_LIFE_S = 0.6
PATIENCE_S = 120.0


@dataclass
class Report:
    """What came of it."""

    kills: int = 0
    of_workers: int = 0
    """Kills of a worker alone."""
    in_flight: int = 0
    """Kills while a batch was open or a write under way."""
    batches: int = 0
    writes: int = 0
    expired: int = 0

    def __str__(self) -> str:
        return (
            f"kills {self.kills} ({self.of_workers} of a worker alone), "
            f"in flight {self.in_flight}, batches {self.batches}, "
            f"writes {self.writes}, expired records {self.expired}, lost 0, doubled 0"
        )


@dataclass
class Killer:
    """Kills the sidecar, or one of its workers, at random moments; it is started again."""

    sidecar: Sidecar
    draw: random.Random
    kills: int
    report: Report
    busy: threading.Event = field(default_factory=threading.Event)
    """Set while a batch is open."""
    done: threading.Event = field(default_factory=threading.Event)
    failed: list[BaseException] = field(default_factory=list)

    def run(self) -> None:
        try:
            for _ in range(self.kills):
                self.busy.wait(PATIENCE_S)
                threading.Event().wait(self.draw.random() * 0.8)
                self.report.in_flight += self.busy.is_set()
                workers = self.sidecar.workers()
                if workers and self.draw.random() < 0.7:
                    os.kill(self.draw.choice(workers), signal.SIGKILL)
                    self.report.of_workers += 1
                else:
                    self.sidecar.stop(signal.SIGKILL)
                    self.sidecar.start()
                self.report.kills += 1
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            self.failed.append(error)
        finally:
            self.done.set()


class Query:
    """A query as the sidecar sees it."""

    def __init__(self, sidecar: Sidecar, checkpoint: Path, draw: random.Random) -> None:
        self._commits = checkpoint / "commits"
        self._commits.mkdir(parents=True)
        self._checkpoint = checkpoint
        self._draw = draw
        self._routes = Routes(Address(f"unix:{sidecar.data_socket}"), PATIENCE_S)
        self._connection = self._routes.main
        self._runs = 0
        self._executions = 0
        self.reference = Reference(RULE, TEXTS)

    def declare(self) -> None:
        declaration = Declaration.of(UID, SPEC, TimeDomain.PROCESSING, SHARDS)
        policy = policy_processing(RULE).to_json()
        header = {"declaration": declaration.to_json(), "policy": policy}
        self._connection.call("declare", header)
        self._begin()

    def batch(self, batch_id: int) -> None:
        """Plan, run and commit one batch, with what can happen on the way."""
        pairs = [
            (self._draw.choice(KEYS), self._draw.choice([None, 1, 2, 3]))
            for _ in range(self._draw.randint(1, 30))
        ]
        time_ms = time.time_ns() // 1_000_000  # noqa: TID251 - plays Spark, which plans by it
        if self._draw.random() < 0.2:
            self._execute(batch_id, pairs, time_ms, dies=True)
            self._begin()
        if self._draw.random() < 0.2:
            self._execute(batch_id, pairs, time_ms)
        t_ms = self._execute(batch_id, pairs, time_ms)
        (self._commits / str(batch_id)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        self.reference.batch_id = batch_id
        for key, value in sorted(pairs, key=lambda pair: pair[1] is None):
            self.reference.take(Record((key,), t_ms, {"v": value}, read=value is None))
        self.reference.sweep(t_ms)

    def expired(self) -> pa.Table | None:
        tables, since = [], 0
        while True:
            header = {"uid": UID, "since": since, "most": 1000}
            answer = self._connection.call("expired", header)
            if not answer.parts:
                return pa.concat_tables(tables) if tables else None
            tables.append(pa.ipc.open_stream(answer.parts[0]).read_all())
            numbers = tables[-1].column("seq").to_pylist()
            assert numbers == list(range(since, since + len(numbers)))
            since += len(numbers)

    def settle(self) -> int:
        live = 0
        self._connection.call("settle", {"uid": UID})
        figures = self._connection.call("figures", {"uid": UID}).header["figures"]
        for each in figures.values():
            live += each["live_keys"]
        return live

    def _begin(self) -> None:
        self._runs += 1
        header = {"uid": UID, "query_id": "query", "run_id": f"run-{self._runs}"}
        self._connection.call("begin", header | {"checkpoint": str(self._checkpoint)})

    def _execute(self, batch_id: int, pairs: Any, time_ms: int, *, dies: bool = False) -> int:
        self._executions += 1
        t_ms = 0
        for partition in range(PARTITIONS):
            attempts = self._draw.choice([1, 1, 1, 2])
            for attempt in range(attempts):
                t_ms = self._task(batch_id, pairs, time_ms, partition, attempt)
            if dies:
                break
        return t_ms

    def _task(self, batch_id: int, pairs: Any, time_ms: int, partition: int, attempt: int) -> int:
        while True:
            try:
                return self._exchange(batch_id, pairs, time_ms, partition, attempt)
            except GoneError:
                continue

    def _exchange(
        self, batch_id: int, pairs: Any, time_ms: int, partition: int, attempt: int
    ) -> int:
        shards = list(range(partition, SHARDS, PARTITIONS))
        facts = {
            "query_id": "query",
            "run_id": f"run-{self._runs}",
            "execution_id": str(self._executions),
            "batch_id": batch_id,
            "attempt": attempt,
            "partition": partition,
            "partitions": PARTITIONS,
            "shards": shards,
            "time_ms": time_ms,
            "watermark_ms": -1,
            "policy": policy_processing(RULE).to_json(),
        }
        opened = self._connection.call("open", {"uid": UID, "attempt": facts}).header
        packets = packets_of(pairs)
        self._routes.take(opened["places"])
        handle, ranges = opened["handle"], set()
        for shard in shards:
            at = self._routes.range_of(shard, SHARDS)
            header = {"handle": handle, "at": [shard, 0, 0], "is_first": at not in ranges}
            self._routes.to_range(at).call("chunk", header, packets[shard])
            ranges.add(at)
        header = {"handle": handle, "counts": {}, "ranges": sorted(ranges)}
        self._connection.call("finish", header)
        for at in ranges:
            self._routes.to_range(at).call("close", {"handle": handle})
        self._connection.call("close", {"handle": handle})
        t_ms: int = opened["t_ms"]
        return t_ms


def carry_out(folder: Path, backend: str, seed: int, kills: int, workers: int = 1) -> Report:
    """Kill so many times, let everything expire, and compare.

    Raises:
        AssertionError: something was lost or doubled.
    """
    draw = random.Random(seed)
    report = Report()
    settings = {"backend": backend, "workers": workers, "sweep_every": "50ms", "operators": {}}
    sidecar = Sidecar(folder, **settings).start()
    query = Query(sidecar, folder / "checkpoint", draw)
    query.declare()
    killer = Killer(sidecar, random.Random(seed + 1), kills, report)
    threads = [threading.Thread(target=killer.run)]
    writer = SidecarClient(
        f"unix:{sidecar.data_socket}", UID, writer="w", patience=timedelta(seconds=PATIENCE_S)
    )
    written: Counter[str] = Counter()

    def write() -> None:
        try:
            while not killer.done.is_set():
                key = f"written-{len(written) % 7}-{report.writes % 5}"
                writer.add_many({"k": [key], "v": [1]})
                written[key] += 1
                report.writes += 1
                threading.Event().wait(0.03)
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            killer.failed.append(error)

    threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    while not killer.done.is_set():
        killer.busy.set()
        query.batch(report.batches)
        killer.busy.clear()
        report.batches += 1
        if draw.random() < 0.1:
            threading.Event().wait(LONGEST_LIFE_S)
    for thread in threads:
        thread.join()
    assert killer.failed == []
    ends_s = time.monotonic() + PATIENCE_S
    while query.settle():
        assert time.monotonic() < ends_s, "lives do not end"
        threading.Event().wait(0.1)
    table = query.expired()
    assert table is not None
    report.expired = len(table)
    found = plain_rows(SPEC, table.drop_columns(["seq"]))
    query.reference.sweep(2**62)
    of_query = [row for row in found if not row["key"][0].startswith("written")]
    assert_rows(query.reference.expired, of_query, TEXTS)
    counted: Counter[str] = Counter()
    for row in found:
        if row["key"][0].startswith("written"):
            counted[row["key"][0]] += row["n"]
    assert counted == written
    writer.close()
    assert sidecar.stop() == 0
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", choices=["rocksdb", "heap"], default="rocksdb")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=20_250_303)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="idle-") as folder:
        print(carry_out(Path(folder), words.backend, words.seed, words.kills, words.workers))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The sidecar by itself: `python benchmarks/sidecar.py [--backend rocksdb|heap] [--keys 500000]`.

Starts one, writes keys from a client, and measures direct writes, look-ups alone and beside writes,
how much a sweep of all keys delays writes, and a start on what is stored then.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.sidecar.client import SidecarClient

UID = "bench"
BATCH_ROWS = 50_000
SMALL_ROWS = 1_000
LOOKS = 400
SEED = 20_250_303
WINDOWS = {"min": "20s", "max": "30s"}


class Served:
    """A sidecar on a folder of its own."""

    def __init__(self, folder: Path, backend: str, windows: dict[str, str]) -> None:
        self.folder = folder
        self.place = f"unix:{folder / 'data.sock'}"
        self._file = folder / "sidecar.json"
        operator = {
            "columns": {"key": "string"},
            "key": ["key"],
            "aggregates": {"n": "count"},
            "policy": "bench",
        }
        document = {
            "version": 1,
            "policies": {"bench": {"time": "processing", "idle": windows, "min_gap": "1ms"}},
            "sidecar": {
                "directory": str(folder / "state"),
                "backend": backend,
                "data": self.place,
                "operators": {UID: operator},
            },
        }
        self._file.write_text(json.dumps(document))
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> float:
        """Start it; seconds until it answers."""
        began = time.perf_counter()
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "idlestate.service.cli", "serve", str(self._file)],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        assert line.startswith("data at"), line
        return time.perf_counter() - began

    def stop(self) -> None:
        """Stop it."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def client(self) -> SidecarClient:
        """A client of it."""
        return SidecarClient(self.place, UID)


def keys_of(ids: np.ndarray[Any, Any]) -> pa.Table:
    """Twenty-character keys."""
    return pa.table({"key": pa.array([f"key-{number:016}" for number in ids])})


def timed(call: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def shown(seconds: list[float]) -> str:
    """A latency histogram in a line, milliseconds."""
    cuts = np.percentile(np.array(seconds) * 1000, [50, 90, 99, 100])
    return "p50 {:.1f}  p90 {:.1f}  p99 {:.1f}  max {:.1f} ms".format(*cuts)


@contextmanager
def beside(work: Callable[[], Any]) -> Iterator[None]:
    """Do a piece of work over and over beside something else."""
    done = threading.Event()

    def run() -> None:
        while not done.is_set():
            work()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def looks(client: SidecarClient, keys: int, draw: np.random.Generator, count: int) -> list[float]:
    """How long look-ups of one key take."""
    return [
        timed(lambda: client.get_many(keys_of(draw.integers(0, keys, 1)))) for _ in range(count)
    ]


def measure(backend: str, keys: int) -> None:
    """Run everything and print it."""
    draw = np.random.default_rng(SEED)
    folder = Path(tempfile.mkdtemp(prefix="idlestate-bench-"))
    try:
        served = Served(folder, backend, {"min": "1h", "max": "2h"})
        print(f"{backend}: first start {served.start():.2f} s")
        with served.client() as client, served.client() as other:
            rates = []
            for begin in range(0, keys, BATCH_ROWS):
                rows = keys_of(np.arange(begin, min(begin + BATCH_ROWS, keys)))
                rates.append(len(rows) / timed(lambda rows=rows: client.add_many(rows)))
            print(f"  new keys: {np.median(rates):,.0f} rows/s in calls of {BATCH_ROWS:,}")
            for size in (BATCH_ROWS, SMALL_ROWS):
                rates = []
                for _ in range(20):
                    rows = keys_of(draw.integers(0, keys, size))
                    rates.append(size / timed(lambda rows=rows: client.add_many(rows)))
                print(f"  known keys: {np.median(rates):,.0f} rows/s in calls of {size:,}")
            print(f"  look-ups alone: {shown(looks(client, keys, draw, LOOKS))}")
            steady = np.random.default_rng(SEED + 1)
            work = lambda: other.add_many(keys_of(steady.integers(0, keys, SMALL_ROWS)))  # noqa: E731
            with beside(work):
                print(f"  look-ups beside writes: {shown(looks(client, keys, draw, LOOKS))}")
        served.stop()
        print(f"  start on {keys:,} keys: {served.start():.2f} s")
        served.stop()
    finally:
        shutil.rmtree(folder)
    sweeping(backend, keys, draw)


def sweeping(backend: str, keys: int, draw: np.random.Generator) -> None:
    """How much a sweep of all keys delays writes to others."""
    folder = Path(tempfile.mkdtemp(prefix="idlestate-bench-"))
    try:
        served = Served(folder, backend, WINDOWS)
        served.start()
        with served.client() as client:
            for begin in range(0, keys, BATCH_ROWS):
                client.add_many(keys_of(np.arange(begin, min(begin + BATCH_ROWS, keys))))
            calm, swept, found = [], [], 0
            while found < keys:
                rows = keys_of(keys + draw.integers(0, SMALL_ROWS, SMALL_ROWS))
                took = timed(lambda rows=rows: client.add_many(rows))
                seen = found
                found += sum(map(len, client.expired(found)))
                (swept if found > seen else calm).append(took)
        print(f"  writes before a sweep of {keys:,} keys: {shown(calm)}")
        print(f"  writes while it runs:                {shown(swept)}")
        served.stop()
    finally:
        shutil.rmtree(folder)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["rocksdb", "heap"], action="append")
    parser.add_argument("--keys", type=int, default=500_000)
    words = parser.parse_args()
    for backend in words.backend or ["rocksdb", "heap"]:
        measure(backend, words.keys)


if __name__ == "__main__":
    main()

"""What the sidecar's benchmark is made of: a served sidecar, writers of their own, latencies."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from idlestate.sidecar.client.client import SidecarClient
from state_memory import touch_memory
from usage import Usage

UID = "bench"
LONG_LIVED = {"min": "1h", "max": "2h"}
EXPIRE_MS = 5_400_000
BATCH_ROWS = 50_000
SCRIPT_KEYS = 1_000
WRITTEN_ROW_BYTES = 1 << 10
"""More than a row takes: it is written many times over, and all of that goes to the page cache."""
SCRIPT = """
for _, key in ipairs(KEYS) do
  redis.call('INCR', key)
  redis.call('PEXPIRE', key, ARGV[1])
end
"""


class Served:
    """A sidecar on a folder of its own."""

    def __init__(
        self, folder: Path, backend: str, windows: dict[str, str] = LONG_LIVED, workers: int = 1
    ) -> None:
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
                "workers": workers,
                "data": self.place,
                "control": "127.0.0.1:0",
                "operators": {UID: operator},
            },
        }
        self._file.write_text(json.dumps(document))
        self._process: subprocess.Popen[str] | None = None
        self._control_url = ""

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
        data, _, self._control_url = line.strip().partition(", control at ")
        assert data.startswith("data at"), line
        return time.perf_counter() - began

    def stop(self) -> None:
        """Stop it."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def scrape(self) -> None:
        """Fetch its metrics, as Prometheus does."""
        with urllib.request.urlopen(f"{self._control_url}/metrics", timeout=10) as reply:  # noqa: S310 - our own
            reply.read()

    def client(self) -> SidecarClient:
        """A client of it."""
        return SidecarClient(self.place, UID)


@contextmanager
def served(
    backend: str, windows: dict[str, str] = LONG_LIVED, workers: int = 1
) -> Iterator[Served]:
    """A sidecar that has not been started, stopped in the end."""
    folder = Path(tempfile.mkdtemp(prefix="idlestate-bench-"))
    sidecar = Served(folder, backend, windows, workers)
    try:
        yield sidecar
        sidecar.stop()
    finally:
        shutil.rmtree(folder)


def keys_of(ids: np.ndarray[Any, Any]) -> pa.Table:
    """Twenty-character keys."""
    return pa.table({"key": pa.array([f"key-{number:016}" for number in ids])})


def fill(client: SidecarClient, keys: int) -> list[float]:
    """Write so many new keys; rows per second of each call."""
    rates = []
    for begin in range(0, keys, BATCH_ROWS):
        rows = keys_of(np.arange(begin, min(begin + BATCH_ROWS, keys)))
        rates.append(len(rows) / timed(lambda rows=rows: client.add_many(rows)))
    return rates


def timed(call: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def shown(seconds: list[float]) -> str:
    """Latencies in a line, milliseconds."""
    cuts = np.percentile(np.array(seconds) * 1000, [50, 90, 99, 100])
    return "p50 {:.1f}  p90 {:.1f}  p99 {:.1f}  max {:.1f} ms".format(*cuts)


def histogram(title: str, seconds: list[float]) -> Iterator[str]:
    """How many calls took how long, in lines; each bucket is twice as wide as the one before."""
    edges = [0, 5, 10, 20, 40, 60, 80, 160, float("inf")]
    counts, _ = np.histogram(np.array(seconds) * 1000, edges)
    yield f"    {title}: {len(seconds)} calls"
    for low, high, count in zip(edges, edges[1:], counts.tolist(), strict=False):
        bar = "#" * round(50 * count / max(1, len(seconds)))
        yield f"      {low:>4} to {high:>4} ms {count:>6} {bar}"


# ---- queries and writers in processes of their own


@contextmanager
def played_query(sidecar: Served, keys: int) -> Iterator[None]:
    """A query that has batch after batch of as many rows as there are keys."""
    program = Path(__file__).with_name("played_query.py")
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, str(program), sidecar.place, str(keys)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield
    finally:
        process.communicate()
    assert process.returncode == 0


class Writing(NamedTuple):
    """What writers came to."""

    rate: float
    """Rows per second of all together."""
    processor_us: float
    """Processor time of them and of who serves them, microseconds per 1,000 rows."""


def written_at_once(
    kind: str, place: str, keys: int, calls: int, writers: int, call_rows: int = BATCH_ROWS
) -> Writing:
    """Writers that write known keys at once, each in a process of its own.

    Args:
        kind: `sidecar` or `redis`.
        place: where that is.
        keys: how many there are.
        calls: how many calls each makes.
        writers: how many.
        call_rows: how many rows a call has.
    """
    command = [sys.executable, __file__, kind, place, str(keys), str(calls), str(call_rows)]
    processes = [
        subprocess.Popen(  # noqa: S603 - our own program
            [*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(writers)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    rows = writers * calls * call_rows
    touch_memory(rows * WRITTEN_ROW_BYTES)
    usage = Usage()
    usage.sample(os.getpid())
    began = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
    seconds = time.perf_counter() - began
    usage.sample(os.getpid())
    for process in processes:
        process.communicate()  # what their end costs is no part of it
    (_, _, before_ms), (_, _, after_ms) = usage.samples
    return Writing(rows / seconds, (after_ms - before_ms) * 1e6 / rows)


def _write_to_sidecar(place: str, batches: list[pa.Table]) -> Callable[[], None]:
    client = SidecarClient(place, UID)
    client.add_many(batches[0])

    def run() -> None:
        for rows in batches:
            client.add_many(rows)

    return run


def _write_to_redis(place: str, batches: list[pa.Table]) -> Callable[[], None]:
    import redis  # noqa: PLC0415 - only where there is a server

    script = redis.Redis(unix_socket_path=place).register_script(SCRIPT)
    keys = [rows.column("key").to_pylist() for rows in batches]

    def run() -> None:
        for batch in keys:
            for begin in range(0, len(batch), SCRIPT_KEYS):
                script(keys=batch[begin : begin + SCRIPT_KEYS], args=[EXPIRE_MS])

    return run


def _writer(kind: str, place: str, keys: int, calls: int, call_rows: int, number: int) -> None:
    draw = np.random.default_rng(number)
    batches = [keys_of(draw.integers(0, keys, call_rows)) for _ in range(calls)]
    run = (_write_to_sidecar if kind == "sidecar" else _write_to_redis)(place, batches)
    print("ready", flush=True)
    sys.stdin.readline()
    run()
    print("done", flush=True)


if __name__ == "__main__":
    _writer(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))

"""Sparse batches on large state, without Spark: what a batch costs when it touches few keys.

    sparse.py [--keys 100000 1000000 10000000] [--distinct 10000 ...] [--batches 100] [--runs URL]

A table of so many keys is loaded, then every batch writes a few keys drawn from all of them. The
shards' runs are files, as under a checkpoint. Printed per size: median and longest time of a batch,
bytes written per batch (merges included), rows named per open life, the runs of a shard. Then the
page cache of the files is dropped, and the first batch after a start of the query is timed, which
trusts nothing it has not checked, with the bytes it read from disk (none where files are memory).

With `--runs` the files are in a store far away, such as an S3 server that `python -m moto.server`
starts (`s3://bucket/folder?endpoint_override=127.0.0.1:5000&scheme=http`); then the local cache is
dropped too, and what is printed is what was fetched.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from idlestate.backends.files import run_files
from idlestate.backends.files.file_checked_on_read import Span
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.local_cache import PLACE_VARIABLE, local_cache
from idlestate.backends.files.remote_file import FarBytes
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.packet_codec import encode_packet
from idlestate.backends.shards.shard_batch import advance
from idlestate.backends.shards.shard_record import OPEN, ShardRecord
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy
from idlestate.retention.policy_version import PolicyVersion

SHARDS = 8
LOADED_AT_ONCE = 500_000
SPEC = TableSpec((("key", pa.int64()),), aggregation({"n": "count"}, {}))
DAY_MS = 86_400_000
IN_FORCE = PolicyVersion(1, 0, Policy(idle_min_ms=DAY_MS, idle_max_ms=2 * DAY_MS))


class Shards:
    """The shards of a table and the files they wrote."""

    def __init__(self, folder: Folder, cache: Path) -> None:
        self.folder = folder
        self.cache = cache
        self.states = [ShardRecord("sparse", shard) for shard in range(SHARDS)]
        self.batch_id = 0
        self.written = 0
        self.starts = 0

    def take(self, ids: np.ndarray, t_ms: int) -> float:
        """One batch that writes these keys; how long it took, in milliseconds."""
        packets = list(_packets(ids, t_ms))
        # A batch a second: by this clock the ages of keys are looked at.
        times = BatchTimes(self.batch_id, t_ms - DAY_MS, self.batch_id * 1000)
        began = time.perf_counter()
        for at, packet in enumerate(packets):
            files = run_files.RunFiles(self.folder, at, f"start {self.starts}")
            before = self.states[at]
            advanced = advance(SPEC, before, files, [packet], {}, times, IN_FORCE)
            new = set(advanced.record.runs) - set(before.runs)
            self.written += sum(ref.bytes for ref in new) + len(advanced.record.encode())
            self.states[at] = files.remove_unwanted(
                advanced.record, self.batch_id + 2, 1, orphans=False
            )
        self.batch_id += 1
        return (time.perf_counter() - began) * 1000

    def start_cold(self) -> None:
        """As if the query was started again on a machine that never read the files."""
        self.starts += 1
        for at in range(SHARDS):
            # Lets go of what is mapped, which the kernel would not forget.
            run_files.RunFiles(self.folder, at, "nothing").keep(OPEN, {})
        shutil.rmtree(self.cache, ignore_errors=True)
        for state in self.states if self.folder.is_local else ():
            for ref in state.runs:
                path = self.folder.path(f"{state.shard}/{ref.name}")
                handle = os.open(path, os.O_RDONLY)
                os.fsync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(handle)

    def bytes_read(self) -> int:
        """From this machine's disks so far, or from the store."""
        return _bytes_read() if self.folder.is_local else sum(fetched)


def _packets(ids: np.ndarray, t_ms: int) -> Iterator[bytes]:
    # Numbers spread over 64 bits stand for hashes: what a key hashes to is no matter here.
    hashes = (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    steps = Steps.from_records(SPEC, [pa.array(ids)], np.full(len(ids), t_ms), {}, hashes=hashes)
    bounds = np.linspace(-(2**63), 2**63, SHARDS + 1)[1:-1].astype(np.int64)
    cuts = [0, *np.searchsorted(steps.hashes, bounds).tolist(), len(steps)]
    for first, stop in pairwise(cuts):
        yield encode_packet(steps.slice(first, stop))


fetched: list[int] = []
_really_fetch = FarBytes.fetch


def _count(far: FarBytes, spans: Sequence[Span]) -> Iterator[tuple[int, memoryview]]:
    for begin, piece in _really_fetch(far, spans):
        fetched.append(len(piece))
        yield begin, piece


def _bytes_read() -> int:
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("read_bytes"):
            return int(line.split()[1])
    raise OSError("/proc/self/io says nothing of bytes read")


def measure(keys: int, distinct: int, batches: int, runs: str | None) -> str:
    """One line for a table of so many keys."""
    chance = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        place = Folder(folder)
        if runs is not None:
            os.environ[PLACE_VARIABLE] = str(cache)
            local_cache.cache_clear()
            place = Folder(runs).below(uuid.uuid4().hex)
        shards = Shards(place, cache)
        for first in range(0, keys, LOADED_AT_ONCE):
            shards.take(np.arange(first, min(first + LOADED_AT_ONCE, keys)), 10 * DAY_MS)
        shards.written = 0

        def batch(at: int) -> float:
            ids = chance.choice(keys, distinct, replace=False)
            return shards.take(ids, 10 * DAY_MS + at * 60_000)

        times = [batch(at) for at in range(batches)]
        written = shards.written / batches
        live = sum(state.live_keys for state in shards.states)
        rows = sum(state.current.rows for state in shards.states)
        size = sum(state.current.bytes for state in shards.states)
        runs = max(len(state.current.runs) for state in shards.states)
        shards.start_cold()
        before = shards.bytes_read()
        cold = batch(batches)
        read = shards.bytes_read() - before
        if runs is not None:
            place.remove_all()
    return (
        f"{keys:>11,} {distinct:>9,} {statistics.median(times):9.1f} {statistics.mean(times):9.1f} "
        f"{max(times):9.1f} {written / 1e6:10.2f} {size / 1e6:9.1f} {rows / live:9.2f} {runs:5d} "
        f"{cold:9.1f} {read / 1e6:9.1f}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure each size and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--distinct", type=int, nargs="+", default=[10_000])
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--runs", help="URL of a store for the files; default this disk")
    asked = parser.parse_args(argv)
    FarBytes.fetch = _count  # type: ignore[method-assign]
    print(f"{asked.batches} batches; the last columns: one cold")
    print(
        "       keys   touched    median   mean ms   longest MB written  MB state rows/life  runs"
        "        ms   MB read"
    )
    for keys in asked.keys:
        for distinct in asked.distinct:
            print(measure(keys, distinct, asked.batches, asked.runs), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The sidecar by itself: `python benchmarks/sidecar.py [--backend rocksdb|heap] [--keys 500000]`.

Per backend: direct writes of two writers with one worker and with two, look-ups alone and under
load, how much a sweep of all keys delays writes, writes beside a scrape every second, and a start
on what is stored (`--start-keys 10000000`). Beside them Redis, told by a script of 1,000 keys with
expiry what a write is.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

from beside import SCRAPE_EVERY_S, beside
from idlestate.sidecar.client.client import SidecarClient
from served_sidecar import (
    BATCH_ROWS,
    SCRIPT_KEYS,
    Served,
    Writing,
    fill,
    histogram,
    keys_of,
    played_query,
    served,
    shown,
    timed,
    written_at_once,
)
from state_contestants import redis_server

SMALL_ROWS = 1_000
LARGE_ROWS = 200_000
LOOKS = 1_000
WRITERS = 2
CORES = len(os.sched_getaffinity(0))
SMALL_CALLS = 50
WARM_LOOKS = 20
SEED = 20_250_303
SWEEP_TIME_MS = 50
SHORT_LIVED = {"min": "5s", "max": "6s"}
SCALING_AIM = 1.6
SCRAPE_AIM = 1.05
LOOK_AIM_MS, LOADED_LOOK_AIM_MS = 5, 25
START_AIM_S = {"rocksdb": 1.0, "heap": 5.0}


def measure_redis(keys: int, calls: int) -> float | None:
    """Rows per second of Redis; None where there is none."""
    with (
        tempfile.TemporaryDirectory(prefix="idlestate-bench-") as folder,
        redis_server(Path(folder) / "redis") as redis,
    ):
        if redis is None:
            print("Redis is left out: there is no redis-server on this machine.")
            return None
        place = str(Path(folder) / "redis" / "socket")
        rate = written_at_once("redis", place, keys, calls, WRITERS).rate
        print(f"redis: {rate:,.0f} rows/s of {WRITERS} writers, scripts of {SCRIPT_KEYS:,} keys")
        return rate


@contextmanager
def filled(backend: str, keys: int, workers: int = 1) -> Iterator[tuple[Served, SidecarClient]]:
    """A sidecar that has so many keys."""
    with served(backend, workers=workers) as sidecar:
        sidecar.start()
        with sidecar.client() as client:
            fill(client, keys)
            yield sidecar, client


def writes(backend: str, keys: int, calls: int, rounds: int, redis: float | None) -> None:
    """Direct writes to known keys, with one worker and with two by turns."""
    sizes = {BATCH_ROWS: calls, LARGE_ROWS: -(-calls * BATCH_ROWS // LARGE_ROWS)}
    found: dict[tuple[int, int], list[Writing]] = {}
    small: dict[int, list[float]] = {1: [], 2: []}
    draw = np.random.default_rng(SEED)
    for _ in range(rounds):
        for workers in small:
            with filled(backend, keys, workers) as (sidecar, client):
                for rows, count in sizes.items():
                    wrote = written_at_once("sidecar", sidecar.place, keys, count, WRITERS, rows)
                    found.setdefault((rows, workers), []).append(wrote)
                drawn = [keys_of(draw.integers(0, keys, SMALL_ROWS)) for _ in range(SMALL_CALLS)]
                small[workers] += [timed(lambda rows=rows: client.add_many(rows)) for rows in drawn]
    for workers, seconds in small.items():
        print(f"  writes, workers {workers}, calls of {SMALL_ROWS:,}: {shown(seconds)}")
    for rows in sizes:
        one, two = (_median(found[rows, workers], redis, rows, workers) for workers in small)
        # What two processors that never rest could do: who writes has to be served by them too.
        bound = CORES * 1e9 / two.processor_us / one.rate
        print(
            f"  workers 2 to 1, calls of {rows:,}: {two.rate / one.rate:.2f} times (aim "
            f"{SCALING_AIM}); {CORES} cores that never rest could make it {bound:.2f}"
        )


def _median(every: list[Writing], redis: float | None, rows: int, workers: int) -> Writing:
    """What the middle one of some turns came to, and a line that says it."""
    middle = Writing(*(float(np.median(each)) for each in zip(*every, strict=True)))
    beside_redis = f", {middle.rate / redis:.2f} times Redis" if redis else ""
    print(
        f"  writes, workers {workers}, {WRITERS} writers in calls of {rows:,}: "
        f"{middle.rate:,.0f} rows/s{beside_redis}; {middle.processor_us:,.0f} us of processor "
        "time per 1,000 rows"
    )
    return middle


def look_ups(backend: str, keys: int) -> None:
    """Look-ups of one key: alone, beside a writer, and while a query has batch after batch."""
    draw, steady = np.random.default_rng(SEED), np.random.default_rng(SEED + 1)
    with filled(backend, keys) as (sidecar, client), sidecar.client() as other:

        def looks(count: int) -> list[float]:
            asked = [keys_of(draw.integers(0, keys, 1)) for _ in range(count)]
            return [timed(lambda each=each: client.get_many(each)) for each in asked]

        looks(WARM_LOOKS)
        print(f"  look-ups alone: {shown(looks(LOOKS))} (aim p99 {LOOK_AIM_MS})")
        load = lambda: other.add_many(keys_of(steady.integers(0, keys, SMALL_ROWS)))  # noqa: E731
        with beside(load):
            print(f"  look-ups beside writes: {shown(looks(LOOKS))}")
        with played_query(sidecar, keys):
            told = shown(looks(LOOKS))
        print(f"  look-ups while a query runs: {told} (aim p99 {LOADED_LOOK_AIM_MS})")


def sweeping(backend: str, keys: int, sweeps: int) -> None:
    """How much a sweep of all keys delays writes to others."""
    draw = np.random.default_rng(SEED)
    with served(backend, SHORT_LIVED) as sidecar:
        sidecar.start()
        with sidecar.client() as client:
            calm, swept, found = [], [], 0
            for sweep in range(1, sweeps + 1):
                fill(client, keys)
                while found < sweep * keys:
                    rows = keys_of(keys + draw.integers(0, SMALL_ROWS, SMALL_ROWS))
                    took = timed(lambda rows=rows: client.add_many(rows))
                    seen = found
                    found += sum(map(len, client.expired(found)))
                    (swept if found > seen else calm).append(took)
    print(f"  writes of {SMALL_ROWS:,} rows beside {sweeps} sweeps of {keys:,} idle keys:")
    for title, seconds in (("without", calm), ("with", swept)):
        print(*histogram(title, seconds), sep="\n")
    delays = [float(np.percentile(swept, at) - np.percentile(calm, at)) * 1000 for at in (50, 99)]
    print(
        f"    without {shown(calm)}\n    with    {shown(swept)}\n"
        f"    delay p50 {delays[0]:.1f}  p99 {delays[1]:.1f} ms (sweep time {SWEEP_TIME_MS} ms)"
    )


def scraping(backend: str, keys: int, turns: int, calls: int) -> None:
    """Writes beside a scrape of the metrics every second, and without, by turns."""
    draw = np.random.default_rng(SEED)
    taken: dict[bool, list[float]] = {False: [], True: []}
    with filled(backend, keys) as (sidecar, client):
        for turn in range(2 * turns):
            is_scraped = turn % 2 == 1
            drawn = [keys_of(draw.integers(0, keys, SMALL_ROWS)) for _ in range(calls)]
            scrapes = beside(sidecar.scrape, SCRAPE_EVERY_S) if is_scraped else nullcontext()
            with scrapes:
                taken[is_scraped] += [
                    timed(lambda rows=rows: client.add_many(rows)) for rows in drawn
                ]
    without, scraped = (float(np.percentile(taken[kind], 99)) for kind in (False, True))
    print(
        f"  writes of {SMALL_ROWS:,} rows: {shown(taken[False])}\n"
        f"  beside a scrape a second: {shown(taken[True])}; p99 {scraped / without:.3f} times "
        f"(aim {SCRAPE_AIM})"
    )


def starting(backend: str, keys: int) -> None:
    """A start on what is stored."""
    with served(backend) as sidecar:
        first = sidecar.start()
        with sidecar.client() as client:
            rate = float(np.median(fill(client, keys)))
        sidecar.stop()
        again = sidecar.start()
    aim = f" (aim {START_AIM_S[backend]:.0f} s on 10,000,000)"
    print(f"  new keys: {rate:,.0f} rows/s; first start {first:.2f} s")
    print(f"  start on {keys:,} keys: {again:.2f} s{aim}")


PARTS = ("writes", "looks", "sweep", "scrape", "start")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", choices=["rocksdb", "heap"], action="append")
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--start-keys", type=int, default=1_000_000)
    parser.add_argument("--calls", type=int, default=20, help="Calls of each writer.")
    parser.add_argument("--rounds", type=int, default=3, help="So often with each of the workers.")
    parser.add_argument("--sweeps", type=int, default=8)
    parser.add_argument("--scrape-turns", type=int, default=6, help="With scrapes, and without.")
    parser.add_argument("--scrape-calls", type=int, default=300, help="Calls of a turn.")
    parser.add_argument("--only", choices=PARTS, action="append")
    words = parser.parse_args()
    parts = words.only or PARTS
    redis = measure_redis(words.keys, words.calls) if "writes" in parts else None
    for backend in words.backend or ["rocksdb", "heap"]:
        print(f"{backend}:")
        if "writes" in parts:
            writes(backend, words.keys, words.calls, words.rounds, redis)
        if "looks" in parts:
            look_ups(backend, words.keys)
        if "sweep" in parts:
            sweeping(backend, words.keys, words.sweeps)
        if "scrape" in parts:
            scraping(backend, words.keys, words.scrape_turns, words.scrape_calls)
        if "start" in parts:
            starting(backend, words.start_keys)


if __name__ == "__main__":
    main()

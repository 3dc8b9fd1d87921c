"""Keyed state alone: operations a second, and the ratio to a plain dict and to raw rocksdict.

    state.py [--keys N] [--quick]

Every figure is the median of three rounds over the same keys in another order; peers are measured
in the same run. Batches are of 50,000 keys, given and taken as Arrow arrays.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from rocksdict import Options, Rdict, WriteBatch

from idlestate.backends.keyed.backend import KeyedStateBackend
from idlestate.backends.keyed.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from idlestate.backends.keyed.opening import open_backend
from idlestate.retention.ttl_config import TTL_DISABLED, StateTtlConfig
from idlestate.timers.clock import FakeClock

BATCH = 50_000
LONG = pa.int64()
HOUR_MS = 3_600_000


def rate(work: Callable[[], int], rounds: int = 3) -> float:
    """Operations a second: the median of some rounds."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        done = work()
        found.append(done / (time.perf_counter() - start))
    return statistics.median(found)


class Keys:
    """Keys in random order, one by one or as Arrow batches."""

    def __init__(self, count: int) -> None:
        self._all = [f"customer-{number:011d}" for number in range(count)]
        self._chance = random.Random(7)

    def __iter__(self) -> Iterator[str]:
        self._chance.shuffle(self._all)
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def batches(self) -> list[pa.Array]:
        ordered = list(self)
        return [pa.array(ordered[at : at + BATCH]) for at in range(0, len(ordered), BATCH)]


def per_call(keys: Keys, one: Callable[[str], Any]) -> float:
    """The rate of single calls."""

    def work() -> int:
        for key in keys:
            one(key)
        return len(keys)

    return rate(work)


def in_batches(keys: Keys, many: Callable[[pa.Array], Any]) -> float:
    """The rate of keys in batches, which are made beforehand."""
    batches = keys.batches()

    def work() -> int:
        for batch in batches:
            many(batch)
        return len(keys)

    return rate(work)


def numbers(batch: pa.Array) -> pa.Array:
    return pa.array(range(len(batch)), LONG)


def of_backend(backend: KeyedStateBackend, keys: Keys, ttl: StateTtlConfig) -> dict[str, float]:
    """Rates of the operations on one backend."""
    on = "ttl" if ttl.enabled else "plain"
    value = backend.get_state(ValueStateDescriptor(name=f"v {on}", value_type=LONG, ttl=ttl))
    entries = backend.get_state(
        MapStateDescriptor(name=f"m {on}", key_type=pa.string(), value_type=LONG, ttl=ttl)
    )
    items = backend.get_state(ListStateDescriptor(name=f"l {on}", value_type=LONG, ttl=ttl))
    timers = backend.timer_service(f"t {on}", lambda _: None, lambda _: None)

    def keyed(act: Callable[[], Any]) -> Callable[[str], Any]:
        def one(key: str) -> None:
            backend.set_current_key(key)
            act()

        return one

    due = iter(range(10**9))

    def fire() -> int:
        return timers.advance_watermark(10**9)

    found = {
        "value update": per_call(keys, keyed(lambda: value.update(7))),
        "value get": per_call(keys, keyed(value.value)),
        "map put": per_call(keys, keyed(lambda: entries.put("x", 7))),
        "map get": per_call(keys, keyed(lambda: entries.get("x"))),
        "list append": per_call(keys, keyed(lambda: items.add(7))),
        "timer register": per_call(
            keys, keyed(lambda: timers.register_event_time_timer(None, next(due)))
        ),
        "timer fire": rate(fire, rounds=1),
        "batch put": in_batches(keys, lambda batch: value.put_many(batch, numbers(batch))),
        "batch get": in_batches(keys, value.get_many),
    }
    if ttl.enabled:
        now = HOUR_MS * 2
        found["sweep, all expired"] = rate(lambda: backend.sweep(now, 10**9).seen, rounds=1)
    return found


def of_dict(keys: Keys) -> dict[str, float]:
    """A plain dict doing the same."""
    held: dict[str, int] = {}

    def put(batch: pa.Array) -> None:
        held.update(zip(batch.to_pylist(), range(len(batch)), strict=True))

    def get(batch: pa.Array) -> pa.Array:
        return pa.array([held.get(key) for key in batch.to_pylist()], LONG)

    return {
        "value update": per_call(keys, lambda key: held.__setitem__(key, 7)),
        "value get": per_call(keys, held.get),
        "batch put": in_batches(keys, put),
        "batch get": in_batches(keys, get),
    }


def of_rocksdict(keys: Keys, folder: Path) -> dict[str, float]:
    """Raw rocksdict doing the same reads and writes, eight bytes a value."""
    raw = Rdict(str(folder), Options(raw_mode=True))

    def put(batch: pa.Array) -> None:
        writes = WriteBatch(raw_mode=True)
        for key, number in zip(batch.to_pylist(), range(len(batch)), strict=True):
            writes.put(key.encode(), number.to_bytes(8, "big"))
        raw.write(writes)

    def get(batch: pa.Array) -> pa.Array:
        rows = raw.get([key.encode() for key in batch.to_pylist()])
        return pa.array([int.from_bytes(row, "big") for row in rows], LONG)

    found = {
        "value update": per_call(keys, lambda key: raw.put(key.encode(), b"12345678")),
        "value get": per_call(keys, lambda key: raw.get(key.encode())),
        "batch put": in_batches(keys, put),
        "batch get": in_batches(keys, get),
    }
    raw.close()
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--keys", type=int, default=500_000)
    options.add_argument("--quick", action="store_true", help="20,000 keys")
    given = options.parse_args()
    keys = Keys(20_000 if given.quick else given.keys)
    peers = {"dict": of_dict(keys)}
    found: dict[tuple[str, str], dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="idlestate-bench-") as folder:
        peers["rocksdict"] = of_rocksdict(keys, Path(folder) / "raw")
        for kind, place in (("heap", None), ("rocksdb", Path(folder) / "state")):
            with open_backend(kind, place, clock=FakeClock(0)) as backend:  # type: ignore[arg-type]
                for ttl in (TTL_DISABLED, StateTtlConfig(ttl_ms=HOUR_MS)):
                    on = "ttl" if ttl.enabled else "plain"
                    found[kind, on] = of_backend(backend, keys, ttl)
    sys.stdout.write(f"{len(keys)} keys, operations a second (ratio to dict / to raw rocksdict)\n")
    for (kind, on), rates in found.items():
        for name, each in rates.items():
            ratios = [
                f"{each / peer[name]:.2f}" if name in peer else "-" for peer in peers.values()
            ]
            line = f"{kind:8} {on:6} {name:20} {each:12,.0f}  ({' / '.join(ratios)})\n"
            sys.stdout.write(line)


if __name__ == "__main__":
    main()

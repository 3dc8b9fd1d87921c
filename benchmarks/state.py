"""Keyed state alone: operations a second beside a plain dict, raw rocksdict and Redis.

    state.py [--keys N] [--quick]

Every figure is the median of three rounds, operations a second of processor time of all that work
for the contestant (Redis: client and server). So it is what one core does, however busy the machine
is; with and without a time to live take turns, so that a slow minute is slow for both. Memory that
the work may take is touched before it: on a virtual machine the first touch can cost more than the
work. Batches are of 50,000 keys, given and taken as Arrow arrays. Runs commit after each batch, and
after all calls one by one, before which they fetch the keys. Redis has expiry on everything.
"""

import argparse
import gc
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.timers.clock import FakeClock
from state_contestants import HOUR_MS, SOON, Contestant, Keyed, PlainDict, RawRocksDB, redis_server
from state_large import large_items
from state_memory import KEY_BYTES, bytes_a_key, disk_ratio, sweep_rates, touch_memory
from state_pauses import snapshot_pauses

BATCH = 50_000
ROUNDS = 3
CALLS = 50_000
"""Keys of calls one by one; for Redis a fifth, and a tenth of the keys in batches."""

LARGE = 1_000
"""Entries of a large map, at most a twentieth of the keys."""

OPERATIONS = {
    "value update": "update",
    "value get": "value",
    "map put": "map_put",
    "map get": "map_get",
    "list append": "append",
    "timer register": "register",
    "timer fire": "fire",
    "batch value update": "put_many",
    "batch value get": "get_many",
    "batch map put": "map_put_many",
    "batch map get": "map_get_many",
    "batch list append": "append_many",
    "batch timer register": "register_many",
    "batch timer take": "take",
}

Rates = dict[str, float]
Prepare = Callable[[], Callable[[], int]]
"""What makes the work of a round ready: it gives back a call that does it and counts."""


class Keys:
    """The first keys in random order, one by one or as Arrow batches, and a time for each."""

    def __init__(self, count: int) -> None:
        self._all = [f"customer-{number:011d}" for number in range(count)]
        self._chance = random.Random(7)
        self._times = np.random.default_rng(7)

    def __len__(self) -> int:
        return len(self._all)

    def some(self, count: int) -> list[str]:
        return self._chance.sample(self._all[:count], min(count, len(self._all)))

    def batches(self) -> list[pa.Array]:
        ordered = self.some(len(self._all))
        return [pa.array(ordered[at : at + BATCH]) for at in range(0, len(ordered), BATCH)]

    def times(self, count: int) -> Any:
        return self._times.integers(0, SOON, count)


def rate(contestant: Contestant, prepare: Prepare, keys: Keys) -> float:
    """Operations a second of processor time, of one round."""
    work = prepare()
    gc.collect()
    touch_memory(len(keys) * KEY_BYTES)
    start = time.process_time() + contestant.processor_s()
    done = work()
    spent = time.process_time() + contestant.processor_s() - start
    return done / max(spent, 1e-9)


def rates_of(contestants: Sequence[Contestant], keys: Keys, calls: int) -> list[Rates]:
    """The rates of all that each contestant can do; they take turns."""
    found: list[Rates] = [{} for _ in contestants]
    ways = [ways_of(each, keys, calls) for each in contestants]
    for name in OPERATIONS:
        rounds: list[list[float]] = [[] for _ in contestants]
        for turn in range(ROUNDS):
            each_once = list(zip(contestants, ways, rounds, strict=True))
            for contestant, way, rates in reversed(each_once) if turn % 2 else each_once:
                if name in way:
                    rates.append(rate(contestant, way[name], keys))
        for each, rates in zip(found, rounds, strict=True):
            if rates:
                each[name] = statistics.median(rates)
    return found


def ways_of(contestant: Contestant, keys: Keys, calls: int) -> dict[str, Prepare]:
    """What prepares a round of each operation that the contestant has."""

    def one_by_one(call: Callable[..., Any], *, timed: bool) -> Prepare:
        def prepare() -> Callable[[], int]:
            some = keys.some(calls)
            when = keys.times(len(some)).tolist()
            if timed:
                return lambda: _all_timed(contestant, some, when, call)
            return lambda: _all(contestant, some, call)

        return prepare

    def in_batches(call: Callable[..., Any], *, timed: bool) -> Prepare:
        def prepare() -> Callable[[], int]:
            batches = keys.batches()
            when = [keys.times(len(batch)) for batch in batches]
            return lambda: _batches(contestant, batches, when if timed else None, call)

        return prepare

    def draining(call: Callable[[], int], fill: Prepare) -> Prepare:
        def prepare() -> Callable[[], int]:
            fill()()
            return call

        return prepare

    found = {}
    for name, attribute in OPERATIONS.items():
        call = getattr(contestant, attribute)
        if call is None:
            continue
        if attribute == "fire":
            found[name] = draining(call, one_by_one(contestant.register, timed=True))  # type: ignore[arg-type]
        elif attribute == "take":
            found[name] = draining(call, in_batches(contestant.register_many, timed=True))  # type: ignore[arg-type]
        else:
            way = in_batches if name.startswith("batch") else one_by_one
            found[name] = way(call, timed="register" in attribute)
    return found


def _all(contestant: Contestant, keys: list[str], call: Callable[[str], Any]) -> int:
    contestant.begin(keys)
    for key in keys:
        call(key)
    contestant.end()
    return len(keys)


def _all_timed(
    contestant: Contestant, keys: list[str], times: list[int], call: Callable[[str, int], Any]
) -> int:
    contestant.begin(keys)
    for key, at_ms in zip(keys, times, strict=True):
        call(key, at_ms)
    contestant.end()
    return len(keys)


def _batches(
    contestant: Contestant,
    batches: list[pa.Array],
    times: list[Any] | None,
    call: Callable[..., Any],
) -> int:
    for at, batch in enumerate(batches):
        call(batch, *([] if times is None else [times[at]]))
        contestant.end()
    return sum(map(len, batches))


def mark(*, met: bool) -> str:
    return "met" if met else "MISSED"


def show(found: dict[tuple[str, str], Rates], peers: dict[str, Rates]) -> None:
    """A line for each operation: rate, ratios to the peers, cost of a time to live, aims."""
    head = f"{'':8} {'':5} {'':22} {'ops/s':>12}  " + "".join(f"{each:>10}" for each in peers)
    print(f"{head}   ttl costs   aims")
    for (kind, on), rates in found.items():
        for name, each in rates.items():
            ratios = [each / peer[name] if name in peer else None for peer in peers.values()]
            cells = "".join(f"{'-' if r is None else f'{r:.2f}':>10}" for r in ratios)
            cost = 1 - each / found[kind, "plain"][name] if on == "ttl" else None
            aims = []
            if cost is not None:
                aims.append(f"at most 30 %: {mark(met=cost <= 0.3)}")
            if kind == "heap" and name.startswith("batch"):
                aims.append(f"2 M/s: {mark(met=each >= 2e6)}")
            raw = peers["rocksdict"].get(name)
            if kind != "heap" and name.startswith("batch") and raw:
                share = {"rocksdb": 0.8, "runs": 0.33}[kind]
                aims.append(f"{share} of rocksdict: {mark(met=each >= share * raw)}")
            told = f"{cost:10.0%}" if cost is not None else " " * 10
            print(f"{kind:8} {on:5} {name:22} {each:12,.0f}  {cells}  {told}   {'; '.join(aims)}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--keys", type=int, default=500_000)
    options.add_argument("--quick", action="store_true", help="20,000 keys")
    given = options.parse_args()
    count = 20_000 if given.quick else given.keys
    calls = min(CALLS, count)
    keys, peers = Keys(count), {}
    (peers["dict"],) = rates_of([PlainDict()], Keys(count), calls)
    found: dict[tuple[str, str], Rates] = {}
    print(__doc__)
    with tempfile.TemporaryDirectory(prefix="idlestate-bench-") as scratch:
        folder = Path(scratch)
        raw = RawRocksDB(folder / "raw")
        (peers["rocksdict"],) = rates_of([raw], keys, calls)
        raw.close()
        with redis_server(folder / "redis") as redis:
            if redis is None:
                print("Redis is left out: there is no redis-server on this machine.")
            else:
                (peers["redis"],) = rates_of([redis], Keys(count // 10), calls // 5)
        for kind in ("heap", "rocksdb", "runs"):
            with ExitStack() as stack:
                both = []
                for on, ttl in (("plain", None), ("ttl", StateTtlConfig(ttl_ms=HOUR_MS))):
                    place = None if kind == "heap" else folder / kind / on
                    opened = open_backend(kind, place, clock=FakeClock(0))  # type: ignore[arg-type]
                    both.append(Keyed(stack.enter_context(opened), ttl))
                found[kind, "plain"], found[kind, "ttl"] = rates_of(both, keys, calls)
        print(f"{count:,} keys in batches, {calls:,} one by one. Ratios are to the peer named.\n")
        show(found, peers)
        print()
        for kind in ("heap", "rocksdb", "runs"):
            for name, each, aim in sweep_rates(kind, folder, keys.batches()):
                told = "" if aim is None else f"   {aim:,}/s: {mark(met=each >= aim)}"
                print(f"{kind:8} {name:44} {each:12,.0f} keys/s{told}")
        for kind in ("heap", "rocksdb", "runs"):
            for name, ms in large_items(kind, folder, min(LARGE, count // 20)):
                print(f"{kind:8} {name:44} {ms:12,.1f} ms")
        for what, pause_ms, longest_ms in snapshot_pauses(folder, keys.batches()):
            print(f"heap     snapshot of {count:,} {what}: {pause_ms:.1f} ms   20: ", end="")
            print(f"{mark(met=pause_ms <= 20)}; longest call meanwhile {longest_ms:.0f} ms")
        room = bytes_a_key(keys.batches())
        print(f"heap     a key beside its bytes and columns {room:20.1f} bytes   64: ", end="")
        print(mark(met=room <= 64))
        ratio = disk_ratio(folder, keys.batches())
        print(f"rocksdb  files after compaction, of payload {ratio:20.2f}         1.3: ", end="")
        print(mark(met=ratio <= 1.3))


if __name__ == "__main__":
    sys.exit(main())

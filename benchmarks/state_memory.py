"""Sweeps of idle keys, memory a key on heap, and disk after compaction."""

import mmap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.retention.policy import Policy, UpdateType
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import ValueStateDescriptor
from idlestate.state.idle_batches import IdleBatches
from idlestate.timers.clock import FakeClock
from state_contestants import HOUR_MS, LONG, numbers

BUDGET = 50_000
TTL = StateTtlConfig(ttl_ms=HOUR_MS, update_type=UpdateType.ON_READ_AND_WRITE)


KEY_BYTES = 512
"""More memory than a key takes in any of the measured calls."""


def touch_memory(size_bytes: int) -> None:
    """Have memory that the work may take: on a virtual machine it costs at its first touch."""
    np.empty(size_bytes, dtype=np.uint8)[:: mmap.PAGESIZE] = 1


def _rate(work: Callable[[], int], batches: list[pa.Array]) -> float:
    touch_memory(sum(map(len, batches)) * KEY_BYTES)
    start = time.process_time()
    done = work()
    return done / (time.process_time() - start)


def sweep_rates(
    kind: Any, folder: Path, batches: list[pa.Array]
) -> Iterator[tuple[str, float, int | None]]:
    """Name, keys a second and aim of sweeps over keys that are all idle."""
    aims = {"heap": (1_000_000, 1_000_000)}.get(kind, (1_000_000, 150_000))
    for records in (False, True):
        name = f"sweep {records}"
        clock, place = FakeClock(0), None if kind == "heap" else folder / kind / name
        with open_backend(kind, place, clock=clock) as backend:
            state = backend.get_state(ValueStateDescriptor(name="v", value_type=LONG, ttl=TTL))
            for batch in batches:
                state.put_many(batch, numbers(batch))
                backend.commit()

            def sweep(records: bool = records, backend: Any = backend) -> int:
                removed, done = 0, False
                while not done:
                    report = backend.sweep(HOUR_MS, BUDGET, records=records)
                    removed, done = removed + report.removed, report.done
                    backend.commit()
                return removed

            told = "sweep, records wanted" if records else "sweep, nobody reads the records"
            yield told, _rate(sweep, batches), aims[records]
            assert backend.size("v") == 0
    yield "idle windows: timers, cleanup time, records", _idle(kind, folder, batches), aims[1]


def _idle(kind: Any, folder: Path, batches: list[pa.Array]) -> float:
    """The same by the rule of idle windows: keys taken, their values read, all of it removed."""
    with open_backend(kind, None if kind == "heap" else folder / kind / "idle") as backend:
        state = backend.get_state(ValueStateDescriptor(name="v", value_type=LONG))
        due = backend.get_state(ValueStateDescriptor(name="due", value_type=LONG))
        timers = backend.timer_service("idle", lambda _: None, lambda _: None)
        policy = Policy(idle_min_ms=HOUR_MS, idle_max_ms=2 * HOUR_MS)
        idle = IdleBatches(policy, due, timers)
        times = np.random.default_rng(7)
        for batch in batches:
            state.put_many(batch, numbers(batch))
            idle.access_many(batch, times.integers(0, HOUR_MS, len(batch)))
            backend.commit()

        def take() -> int:
            taken, done = 0, False
            while not done:
                keys, done = idle.take_idle(3 * HOUR_MS, BUDGET)
                taken += len(state.get_many(keys))
                state.remove_many(keys)
                backend.commit()
            return taken

        return _rate(take, batches)


def bytes_a_key(batches: list[pa.Array]) -> float:
    """What a key costs on heap beside its bytes, its value and its timestamp."""
    count = sum(map(len, batches))
    with open_backend("heap", clock=FakeClock(0)) as backend:
        state = backend.get_state(ValueStateDescriptor(name="v", value_type=LONG, ttl=TTL))
        for batch in batches:
            state.put_many(batch, numbers(batch))
        return (backend.usage().total_bytes - payload_of(batches)) / count


def payload_of(batches: list[pa.Array]) -> int:
    """Bytes of the keys, and sixteen each for value and timestamp."""
    return sum(pc.sum(pc.binary_length(batch)).as_py() + 16 * len(batch) for batch in batches)


def disk_ratio(folder: Path, batches: list[pa.Array]) -> float:
    """Bytes of files after compaction, over bytes of keys, values and timestamps."""
    place = folder / "compacted"
    with open_backend("rocksdb", place, clock=FakeClock(0)) as backend:
        state = backend.get_state(ValueStateDescriptor(name="v", value_type=LONG, ttl=TTL))
        chance = np.random.default_rng(7)
        for _ in range(2):
            for batch in batches:
                values = pa.array(chance.integers(-(2**63), 2**63 - 1, len(batch)), LONG)
                state.put_many(batch, values)
        backend.compact()
        return sum(path.stat().st_size for path in place.glob("*.sst")) / payload_of(batches)

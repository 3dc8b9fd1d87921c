"""How long a heap snapshot stops the program: when it is taken, and while a thread writes it."""

import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.retention.policy import TimeDomain
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from state_contestants import FIELD, LONG, SOON, numbers

CALL_KEYS = 1_000
"""Keys of the calls that go on while a snapshot is written."""


def snapshot_pauses(folder: Path, batches: list[pa.Array]) -> Iterator[tuple[str, float, float]]:
    """What is held, milliseconds to take its snapshot, and those of the longest call meanwhile."""
    for what in ("values", "lists", "maps", "timers"):
        with open_backend("heap") as backend:
            write = _writer(backend, what)
            for batch in batches:
                write(batch)
            gc.collect()
            start = time.perf_counter()
            held = backend.snapshot(folder / f"pause of {what}")
            pause_s = time.perf_counter() - start
            finishing, longest_s, some = held.finish_in_thread(), 0.0, batches[0][:CALL_KEYS]
            while not finishing.done():
                start = time.perf_counter()
                write(some)
                longest_s = max(longest_s, time.perf_counter() - start)
            finishing.result()
            yield what, 1000 * pause_s, 1000 * longest_s


def _writer(backend: Any, what: str) -> Any:
    times = np.random.default_rng(7)
    match what:
        case "values":
            values = backend.get_state(ValueStateDescriptor(name="v", value_type=LONG))
            return lambda batch: values.put_many(batch, numbers(batch))
        case "lists":
            elements = backend.get_state(ListStateDescriptor(name="l", value_type=LONG))
            return lambda batch: elements.add_many(batch, numbers(batch))
        case "maps":
            descriptor = MapStateDescriptor(name="m", key_type=pa.string(), value_type=LONG)
            entries = backend.get_state(descriptor)
            return lambda batch: entries.put_many(batch, [FIELD] * len(batch), numbers(batch))
    timers = backend.timer_service("t", lambda _: None, lambda _: None)
    return lambda batch: timers.register_many(
        TimeDomain.EVENT, batch, None, times.integers(0, SOON, len(batch))
    )

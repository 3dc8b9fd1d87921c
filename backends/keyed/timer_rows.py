"""Timers as rows: the key group, the time, then key and namespace as in rows of state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.keyed.errors import StateError
from idlestate.backends.keyed.key_batch import KeyBatch
from idlestate.backends.keyed.rows import KeyLayout
from idlestate.timers.timer import Timer, TimerBatch, time_bytes, time_of

_FLIP = np.uint64(1 << 63)


@dataclass(frozen=True, slots=True)
class TimerLayout:
    """The `TimerCodec` of one backend."""

    keys: KeyLayout

    def encode(self, timer: Timer) -> bytes:
        """The row of a timer."""
        prefix = self.keys.prefix(timer.key, timer.namespace)
        return prefix[:2] + time_bytes(timer.timestamp_ms) + prefix[2:]

    def decode(self, row: bytes) -> Timer:
        """The timer of a row."""
        _, key, namespace, _ = self.keys.split(row[:2] + row[10:])
        return Timer(time_of(row), key, namespace)

    def encode_many(self, keys: Any, namespace: Any, times_ms: Any) -> list[bytes]:
        """The rows of timers of many keys in one namespace.

        Raises:
            StateError: there are more keys than times, or fewer.
        """
        batch = KeyBatch.of(self.keys.key, keys)
        times = np.fromiter(times_ms, dtype=np.int64)
        if len(batch) != len(times):
            raise StateError(f"{len(batch)} keys, but {len(times)} times: give one for each")
        rows = self.keys.prefixes(batch, namespace, times.view(np.uint64) ^ _FLIP)
        found: list[bytes] = rows.to_pylist()
        return found

    def decode_many(self, rows: Sequence[bytes]) -> TimerBatch:
        """The timers of rows; their keys as a `KeyBatch`."""
        data = b"".join([row[2:10] for row in rows])
        times = (np.frombuffer(data, dtype=">u8").astype(np.uint64) ^ _FLIP).view(np.int64)
        if all(row[-1] == 0 and row[10] == len(row) - 12 for row in rows):  # in no namespace
            batch = KeyBatch(self.keys.key, pa.array([row[11:-1] for row in rows], pa.binary()))
            return TimerBatch(batch, [None] * len(rows), times)
        timers = list(map(self.decode, rows))
        batch = KeyBatch.of(self.keys.key, [timer.key for timer in timers])
        return TimerBatch(batch, [timer.namespace for timer in timers], times)

"""Timers as rows: the key group, the time, then key and namespace as in rows of state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.keyed.errors import StateError
from idlestate.backends.keyed.key_batch import KeyBatch, layout_of
from idlestate.backends.keyed.row_keys import KeyLayout
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
        times = np.asarray(times_ms, dtype=np.int64)
        if len(batch) != len(times):
            raise StateError(f"{len(batch)} keys, but {len(times)} times: give one for each")
        rows = self.keys.prefixes(batch, namespace, times.view(np.uint64) ^ _FLIP)
        found: list[bytes] = rows.to_pylist()
        return found

    def decode_many(self, rows: Sequence[bytes]) -> TimerBatch:
        """The timers of rows; their keys as a `KeyBatch`."""
        array = pa.array(rows, pa.binary())
        data, starts, sizes = layout_of(array)
        words = np.ndarray((len(data) - 7,), dtype=">u8", buffer=data, strides=(1,))
        times = (words[starts + 2].astype(np.uint64) ^ _FLIP).view(np.int64)
        bare = (data[starts + 10] == sizes - 12) & (data[starts + sizes - 1] == 0)
        if bare.all():  # in no namespace
            keys = pc.binary_slice(array, 11, -1)
            return TimerBatch(KeyBatch(self.keys.key, keys), [None] * len(rows), times)
        timers = list(map(self.decode, rows))
        batch = KeyBatch.of(self.keys.key, [timer.key for timer in timers])
        return TimerBatch(batch, [timer.namespace for timer in timers], times)

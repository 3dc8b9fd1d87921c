"""Timers as rows: key group, time, then key and namespace as in rows of state."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Positions, layout_of
from idlestate.state.errors import StateError
from idlestate.state.key_batch import KeyBatch
from idlestate.state.row_keys import KeyLayout
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

    def encode_many(self, keys: Any, namespace: Any, times_ms: Any) -> pa.BinaryArray:
        """The rows of timers of many keys in one namespace.

        Raises:
            StateError: the numbers of keys and times differ.
        """
        batch = KeyBatch.of(self.keys.key, keys)
        times = np.asarray(times_ms, dtype=np.int64)
        if len(batch) != len(times):
            raise StateError(f"{len(batch)} keys, but {len(times)} times: give one for each")
        return self.keys.prefixes(batch, namespace, times.view(np.uint64) ^ _FLIP)

    def decode_many(self, rows: pa.BinaryArray) -> TimerBatch:
        """The timers of rows; their keys as a `KeyBatch`."""
        data, starts, sizes = layout_of(rows)
        times = _times(data, starts + 2)
        bare = (data[starts + 10] == sizes - 12) & (data[starts + sizes - 1] == 0)
        if bare.all():  # in no namespace
            keys = pc.binary_slice(rows, 11, -1)
            return TimerBatch(KeyBatch(self.keys.key, keys), [None] * len(rows), times)
        timers = list(map(self.decode, rows.to_pylist()))
        batch = KeyBatch.of(self.keys.key, [timer.key for timer in timers])
        return TimerBatch(batch, [timer.namespace for timer in timers], times)


def times_of(entries: pa.BinaryArray) -> Positions:
    """The times at the start of entries."""
    data, starts, _ = layout_of(entries)
    return _times(data, starts)


def by_time_many(rows: pa.BinaryArray) -> pa.BinaryArray:
    """`by_time` of each row."""
    return _turned(rows, "u2", "u8")


def by_group_many(entries: pa.BinaryArray) -> pa.BinaryArray:
    """`by_group` of each entry."""
    return _turned(entries, "u8", "u2")


def _turned(items: pa.BinaryArray, first: str, second: str) -> pa.BinaryArray:
    """Items with their first two fields, of these types, swapped."""
    data, starts, sizes = layout_of(items)
    firsts, seconds = _fields(data, first), _fields(data, second)
    head, next_to_it = firsts[starts], seconds[starts + firsts.itemsize]
    seconds[starts] = next_to_it
    firsts[starts + seconds.itemsize] = head
    ends = np.append(starts, starts[-1:] + sizes[-1:]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(items), [None, pa.py_buffer(ends), pa.py_buffer(data)]
    )


def _times(data: npt.NDArray[np.uint8], starts: Positions) -> Positions:
    found: Positions = (_fields(data, ">u8")[starts].astype(np.uint64) ^ _FLIP).view(np.int64)
    return found


def _fields(data: npt.NDArray[np.uint8], kind: str) -> npt.NDArray[Any]:
    """The data as overlapping fields of this type, one from every byte."""
    width = np.dtype(kind).itemsize
    return np.ndarray((len(data) - width + 1,), dtype=kind, buffer=data, strides=(1,))

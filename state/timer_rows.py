"""Timers as rows: key group, time, then key and namespace as in rows of state."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Positions, layout_of
from idlestate.state.errors import NullValueError, StateTypeError
from idlestate.state.key_batch import KeyBatch
from idlestate.state.row_keys import KeyLayout
from idlestate.state.state import Many, check_pairs
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
            StateError: as `times_for` raises.
        """
        batch = KeyBatch.of(self.keys.key, keys)
        times = times_for(batch, times_ms)
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


def times_for(keys: KeyBatch, given: Many) -> Positions:
    """The times of a batch, one for each key.

    Raises:
        StateArgumentError: the numbers of keys and times differ.
        NullValueError: one of the times is None.
        StateTypeError: one of them is not a 64-bit integer.
    """
    try:
        column = given if isinstance(given, pa.Array | pa.ChunkedArray) else pa.array(given)
        if pa.types.is_integer(column.type):
            column = column.cast(pa.int64())
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise StateTypeError(
            f"times are not 64-bit integers ({error}): pass milliseconds as integers"
        ) from error
    check_pairs(keys, column, "times")
    if column.null_count:
        first = column.is_null().index(pa.scalar(True)).as_py()
        key = keys.take(np.array([first])).keys[0]
        raise NullValueError(f"the time of key {key!r} is None: pass a time or leave the key out")
    if len(column) and column.type != pa.int64():
        raise StateTypeError(f"times are {column.type}: pass milliseconds as integers")
    times: Positions = np.asarray(column, dtype=np.int64)
    return times


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

"""Timers: a time, and the key to wake then."""

from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.retention.setting_error import WrongTypeError

_EDGE: Final = 1 << 63


class Timer(NamedTuple):
    """A timer of a key in a namespace. Equal timers are one.

    Attributes:
        timestamp_ms: the time at which it fires.
        key: the key that it wakes.
        namespace: its namespace; None for state without namespaces.
    """

    timestamp_ms: int
    key: Any
    namespace: Any


class TimerBatch(NamedTuple):
    """Many timers.

    Attributes:
        keys: the keys that they wake, as the codec represents many keys.
        namespaces: their namespaces.
        times_ms: the times at which they fire, an int64 array.
    """

    keys: Any
    namespaces: Sequence[Any]
    times_ms: Any


class TimerCodec(Protocol):
    """Timers as bytes: key group (2), time (8, sign flipped, big-endian), key and namespace."""

    def encode(self, timer: Timer) -> bytes:
        """The row of a timer."""

    def decode(self, row: bytes) -> Timer:
        """The timer of a row."""

    def encode_many(self, keys: Any, namespace: Any, times_ms: Any) -> pa.BinaryArray:
        """The rows of timers of many keys in one namespace."""

    def decode_many(self, rows: pa.BinaryArray) -> TimerBatch:
        """The timers of rows."""


class TimerQueue(Protocol):
    """The timers of a time domain, each once, the earliest first.

    Timers of one time come by key group, then by the bytes of key and namespace, so that all
    queues fire in the same order.
    """

    def add(self, timer: Timer) -> bool:
        """Add a timer; return False if it is known not to be new."""

    def add_rows(self, rows: pa.BinaryArray, /) -> int:
        """Add the timers of these rows, all or none; return how many are new."""

    def poll_rows(self, until_ms: int, limit: int) -> pa.BinaryArray:
        """Remove up to `limit` timers that are not later than this; return their rows."""

    def remove(self, timer: Timer) -> bool:
        """Remove a timer; return False if it is known that there was none."""

    def peek_ms(self) -> int | None:
        """The earliest time; None if there is no timer."""

    def poll(self, until_ms: int) -> Timer | None:
        """Remove and return the first timer, unless it is later than this."""

    def times_ms(self) -> npt.NDArray[np.int64]:
        """The times of all timers, in any order."""

    def __len__(self) -> int:
        """How many timers there are."""

    def __iter__(self) -> Iterator[Timer]:
        """All timers, by key group, then in order."""

    def rows(self, first_group: int, last_group: int) -> Iterator[bytes]:
        """Rows of the timers of these key groups, first and last included, in order."""


def time_from(given: Any) -> int:
    """A time that a caller passed, as a Python integer.

    Raises:
        WrongTypeError: it is not a 64-bit integer.
    """
    if (time_ms := _long(given)) is None:
        raise WrongTypeError(f"time {given!r} is not valid; pass milliseconds as a 64-bit integer")
    return time_ms


def limit_from(name: str, given: Any) -> int:
    """A largest number that a caller passed, as a Python integer.

    Raises:
        WrongTypeError: it is not a 64-bit integer, or negative.
    """
    limit = _long(given)
    if limit is None or limit < 0:
        raise WrongTypeError(f"{name} {given!r} is not valid; pass an integer of 0 or more")
    return limit


def _long(given: Any) -> int | None:
    """A 64-bit integer of Python or numpy; None for anything else."""
    try:
        number = index(given)
    except TypeError:
        return None
    return number if -_EDGE <= number < _EDGE else None


def time_of(row: bytes) -> int:
    """The time in a timer's row."""
    return int.from_bytes(row[2:10], "big") - _EDGE


def by_time(row: bytes) -> bytes:
    """A row with its time in front; in this form, rows of all groups sort as they fire."""
    return row[2:10] + row[:2] + row[10:]


def by_group(entry: bytes) -> bytes:
    """The inverse of `by_time`."""
    return entry[8:10] + entry[:8] + entry[10:]


def time_bytes(timestamp_ms: int) -> bytes:
    """A time as in rows."""
    return (timestamp_ms + _EDGE).to_bytes(8, "big")


def times_in(fields: Iterable[bytes]) -> npt.NDArray[np.int64]:
    """Times from many fields of `time_bytes`."""
    times = np.frombuffer(b"".join(fields), dtype=">u8").astype(np.uint64) ^ np.uint64(_EDGE)
    return times.view(np.int64)

"""A timer: a time, and whom to wake then."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa


class Timer(NamedTuple):
    """Wakes a key in a namespace. Two that are equal are one.

    Attributes:
        timestamp_ms: when.
        key: whom.
        namespace: in which namespace, None for state without namespaces.
    """

    timestamp_ms: int
    key: Any
    namespace: Any


class TimerBatch(NamedTuple):
    """Many timers.

    Attributes:
        keys: whom they wake, in the form the codec has for many keys.
        namespaces: in which namespaces.
        times_ms: when, as an array of 64-bit integers.
    """

    keys: Any
    namespaces: Sequence[Any]
    times_ms: Any


class TimerCodec(Protocol):
    """Timers as bytes: key group (2 bytes), time (8, sign flipped, big-endian), who."""

    def encode(self, timer: Timer) -> bytes:
        """The row of a timer."""

    def decode(self, row: bytes) -> Timer:
        """The timer of a row."""

    def encode_many(self, keys: Any, namespace: Any, times_ms: Any) -> pa.BinaryArray:
        """The rows of timers of many keys in one namespace."""

    def decode_many(self, rows: pa.BinaryArray) -> TimerBatch:
        """The timers of rows."""


class TimerQueue(Protocol):
    """Timers of one domain, each once, the earliest first.

    Timers of one time come by key group, then by the bytes of key and namespace, so that all
    queues fire in the same order.
    """

    def add(self, timer: Timer) -> bool:
        """Add a timer; whether it is new."""

    def add_rows(self, rows: pa.BinaryArray, /) -> int:
        """Add the timers of these rows, all or none; how many are new."""

    def poll_rows(self, until_ms: int, limit: int) -> pa.BinaryArray:
        """Take timers out that are not later than this, so many at most; their rows."""

    def remove(self, timer: Timer) -> bool:
        """Remove a timer; whether it was there."""

    def peek_ms(self) -> int | None:
        """The earliest time, None when there is no timer."""

    def poll(self, until_ms: int) -> Timer | None:
        """Take the first timer out, unless it is later than this."""

    def __len__(self) -> int:
        """How many timers there are."""

    def __iter__(self) -> Iterator[Timer]:
        """All timers, by key group, then in order."""

    def rows(self, first_group: int, last_group: int) -> Iterator[bytes]:
        """Rows of the timers of these key groups, both included, in order."""


def time_of(row: bytes) -> int:
    """The time in a timer's row."""
    return int.from_bytes(row[2:10], "big") - (1 << 63)


def by_time(row: bytes) -> bytes:
    """A row with its time in front: in this form rows of all groups sort as they fire."""
    return row[2:10] + row[:2] + row[10:]


def by_group(entry: bytes) -> bytes:
    """What `by_time` turned around."""
    return entry[8:10] + entry[:8] + entry[10:]


def time_bytes(timestamp_ms: int) -> bytes:
    """A time as rows have it."""
    return (timestamp_ms + (1 << 63)).to_bytes(8, "big")

"""Timers in memory: a binary heap of rows, one `bytes` per timer, and the set of live ones.

A removed timer stays in the heap until it is due or the heap is twice as large as the live set:
adding and removing cost O(log n), amortised.
"""

import heapq
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.timers.timer import (
    Timer,
    TimerCodec,
    by_group,
    by_time,
    time_bytes,
    time_of,
    times_in,
)

SPARE = 1024
"""The number of removed timers that does not warrant a new heap."""


class HeapTimerQueue:
    """A `TimerQueue` in memory."""

    def __init__(self, codec: TimerCodec) -> None:
        """An empty queue."""
        self._codec = codec
        self._heap: list[bytes] = []
        self._live: set[bytes] = set()

    def add(self, timer: Timer) -> bool:
        """Add a timer; return whether it is new."""
        return self._add(by_time(self._codec.encode(timer)))

    def _add(self, entry: bytes) -> bool:
        if entry in self._live:
            return False
        self._live.add(entry)
        heapq.heappush(self._heap, entry)
        return True

    def add_rows(self, rows: pa.BinaryArray) -> int:
        """Add the timers of these rows; return how many are new."""
        fresh = set(map(by_time, rows.to_pylist())) - self._live
        self._live |= fresh
        self._heap = sorted([*self._heap, *fresh])
        return len(fresh)

    def remove(self, timer: Timer) -> bool:
        """Remove a timer; return whether it existed."""
        entry = by_time(self._codec.encode(timer))
        if entry not in self._live:
            return False
        self._live.remove(entry)
        if len(self._heap) > 2 * len(self._live) + SPARE:
            self._heap = list(self._live)
            heapq.heapify(self._heap)
        return True

    def _first(self) -> bytes | None:
        heap, live = self._heap, self._live
        while heap and heap[0] not in live:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def peek_ms(self) -> int | None:
        """The earliest time; None if there is no timer."""
        first = self._first()
        return None if first is None else time_of(by_group(first))

    def poll(self, until_ms: int) -> Timer | None:
        """Remove and return the first timer, unless it is later than this."""
        first = self._first()
        if first is None or first[:8] > time_bytes(until_ms):
            return None
        heapq.heappop(self._heap)
        self._live.remove(first)
        return self._codec.decode(by_group(first))

    def poll_rows(self, until_ms: int, limit: int) -> pa.BinaryArray:
        """Remove the first timers that are not later than this; return their rows, in order."""
        end, found = time_bytes(until_ms), list[bytes]()
        while len(found) < limit and (first := self._first()) is not None and first[:8] <= end:
            heapq.heappop(self._heap)
            self._live.remove(first)
            found.append(by_group(first))
        return pa.array(found, pa.binary())

    def times_ms(self) -> npt.NDArray[np.int64]:
        """The times of all timers, in any order."""
        return times_in([entry[:8] for entry in self._live])

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Timer]:
        return map(self._codec.decode, sorted(map(by_group, self._live)))

    def rows(self, first_group: int, last_group: int) -> Iterator[bytes]:
        """Rows of the timers of these key groups, first and last included, in order."""
        low, high = first_group.to_bytes(2, "big"), last_group.to_bytes(2, "big")
        return iter(sorted(row for row in map(by_group, self._live) if low <= row[:2] <= high))

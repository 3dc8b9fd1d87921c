"""Timers on heap: the next ones and the newest as objects, all others in flat arrays.

A timer waits long and is touched twice: when it is registered and when it fires. Waiting timers are
in a `ByteIndex` with a column of times, without objects. The next eighth of them is kept sorted,
and moves into the queue of objects in chunks; the others are not sorted. Registering a single timer
puts it into the queue of objects, from which timers move into the arrays in bulk.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Positions, order_of
from idlestate.backends.runs.byte_index import ABSENT, ByteIndex, distinct, grown
from idlestate.retention.rules import NEVER_MS
from idlestate.state.timer_rows import by_group_many, by_time_many, times_of
from idlestate.state.usage import Usage
from idlestate.timers.heap_queue import HeapTimerQueue
from idlestate.timers.timer import Timer, TimerCodec, by_group, by_time

FRONT: Final = 1 << 14
"""Timers that are objects before they move into arrays."""

CHUNK: Final = 1 << 10
"""Timers that become objects together when their time comes near."""

AT_ONCE: Final = 1 << 14
"""Timers of a snapshot that are encoded together."""

SPARE: Final = 1 << 12
"""Number of removed timers that are not worth new arrays."""


class ColumnTimerQueue(HeapTimerQueue):
    """A `TimerQueue` in memory for millions of timers."""

    def __init__(self, codec: TimerCodec) -> None:
        """A queue without timers."""
        super().__init__(codec)
        self._index = ByteIndex()
        self._times = np.empty(0, dtype=np.int64)
        self._window: Positions = np.empty(0, dtype=np.int64)
        self._window_at = 0
        self._horizon = NEVER_MS  # timers up to here are in the window; none is before the first
        self._is_read = False  # whether there ever was a window since the arrays were built
        self._next: bytes | None = None

    # -------------------------------------------------------------- one timer

    def _add(self, entry: bytes) -> bool:
        if self._index.live and self._index.find_one(entry, 0) != ABSENT:
            return False
        if not super()._add(entry):
            return False
        if len(self._live) > FRONT:
            self._settle()
        return True

    def remove(self, timer: Timer) -> bool:
        """Remove a timer; return whether it existed."""
        if super().remove(timer):
            return True
        entry = by_time(self._codec.encode(timer))
        number = self._index.find_one(entry, 0)
        if number == ABSENT:
            return False
        self._take_out(np.array([number]))
        return True

    def _first(self) -> bytes | None:
        first = super()._first()
        if self._index.live and (self._next is None or first is None or self._next < first):
            self._find_next()
            if self._next is not None and (first is None or self._next < first):
                self._pull()
                first = super()._first()
        return first

    # -------------------------------------------------------------- many timers

    def add_rows(self, rows: pa.BinaryArray) -> int:
        """Add the timers of these rows; return how many are new."""
        if len(rows) < CHUNK:
            return sum([self._add(by_time(row)) for row in rows.to_pylist()])
        self._settle()
        return self._append(by_time_many(rows))

    def poll_rows(self, until_ms: int, limit: int) -> pa.BinaryArray:
        """Take out the first timers that are not later than this; return their rows in order."""
        self._settle()
        due = np.flatnonzero(self._index.alive & (self._times[: self._index.count] <= until_ms))
        times = self._times[due]
        if len(due) > limit:  # the others need not be sorted
            due = due[times <= np.partition(times, limit - 1)[limit - 1]]
        entries = self._entries(due)
        order = order_of(entries)[:limit]
        self._take_out(due[order.to_numpy()])
        return by_group_many(entries.take(order))

    # -------------------------------------------------------------- the arrays

    def _settle(self) -> None:
        """Move all objects into the arrays."""
        if self._live:
            entries = pa.array(list(self._live), pa.binary())
            self._live, self._heap = set(), []
            self._append(entries)

    def _append(self, entries: pa.BinaryArray) -> int:
        numbers, new = self._index.add(entries, 0)
        if not len(new):
            return 0
        times = times_of(entries)
        self._times = grown(self._times, self._index.count)
        self._times[numbers] = times
        near = new[self._times[new] <= self._horizon] if self._is_read else new[:0]
        waiting = len(self._window) - self._window_at + len(near)
        if waiting > max(self._index.live // 4, 2 * CHUNK):
            self._forget_window()  # too many to keep sorted: the next call selects a new part
        elif len(near):
            # A timer that was removed and added again may be in the window already.
            both = np.concatenate((self._window[self._window_at :], near))
            self._window = self._sorted(distinct(both))
            self._window_at = 0
        self._next = None
        return len(new)

    def _entries(self, numbers: Positions) -> pa.BinaryArray:
        return self._index.keys.take(pa.array(numbers)).cast(pa.binary())

    def _sorted(self, numbers: Positions) -> Positions:
        found: Positions = numbers[order_of(self._entries(numbers)).to_numpy()]
        return found

    def _find_next(self) -> None:
        """Find the first timer of the arrays, in which some may have been removed."""
        while self._next is None:
            while self._window_at < len(self._window):
                number = int(self._window[self._window_at])
                if self._index.alive[number]:
                    self._next = self._index.key(number)
                    return
                self._window_at += 1
            if not self._read_window():
                return

    def _read_window(self) -> bool:
        """Sort the next timers; return whether there are any."""
        waiting = self._index.alive
        if self._is_read:
            waiting = waiting & (self._times[: self._index.count] > self._horizon)
        numbers = np.flatnonzero(waiting)
        if not len(numbers):
            return False
        times, size = self._times[numbers], max(len(numbers) // 8, CHUNK)
        self._horizon = int(np.partition(times, size)[size] if size < len(times) else times.max())
        self._is_read = True
        self._window, self._window_at = self._sorted(numbers[times <= self._horizon]), 0
        return True

    def _pull(self) -> None:
        """Turn the next timers into objects."""
        numbers = self._window[self._window_at : self._window_at + CHUNK]
        numbers = numbers[self._index.alive[numbers]]
        entries = self._entries(numbers).to_pylist()
        self._window_at += CHUNK
        self._take_out(numbers)
        self._live.update(entries)
        self._heap = sorted([*self._heap, *entries])

    def _take_out(self, numbers: Positions) -> None:
        self._index.remove(numbers)
        self._next = None
        if self._index.count > 2 * self._index.live + SPARE:
            self._times = self._times[self._index.compact()]
            self._forget_window()

    def _forget_window(self) -> None:
        self._window, self._window_at, self._is_read = self._window[:0], 0, False

    # -------------------------------------------------------------- all timers

    def usage(self) -> Usage:
        """The bytes of the arrays."""
        total = self._index.total_bytes + self._times.nbytes + self._window.nbytes
        return Usage(total, self._index.dead_share(total))

    def times_ms(self) -> Positions:
        """The times of all timers, in any order."""
        waiting = self._times[: self._index.count][self._index.alive]
        return np.concatenate((super().times_ms(), waiting))

    def __len__(self) -> int:
        return len(self._live) + self._index.live

    def __iter__(self) -> Iterator[Timer]:
        return map(self._codec.decode, self.rows(0, (1 << 16) - 1))

    def rows(self, first_group: int, last_group: int) -> Iterator[bytes]:
        """Rows of the timers of these key groups, both included, in order."""
        return self.freeze().rows(first_group, last_group)

    def all_rows(self) -> pa.BinaryArray:
        """The rows of all timers, in any order."""
        self._settle()
        return by_group_many(self._entries(np.flatnonzero(self._index.alive)))

    def freeze(self) -> "FrozenTimers":
        """The current timers, unaffected by later changes."""
        return FrozenTimers(list(self._live), self._index.copy())


class FrozenTimers:
    """Frozen timers. Another thread may read them while the queue changes."""

    def __init__(self, objects: list[bytes], waiting: ByteIndex) -> None:
        """Take the timers that are objects, and those in arrays."""
        self._objects, self._waiting = objects, waiting

    def rows(self, first_group: int, last_group: int) -> Iterator[bytes]:
        """Rows of the timers of these key groups, both included, in order."""
        numbers = np.flatnonzero(self._waiting.alive)
        parts = [pa.array(list(map(by_group, self._objects)), pa.large_binary())]
        for at in range(0, len(numbers), AT_ONCE):
            some = self._waiting.keys.take(pa.array(numbers[at : at + AT_ONCE])).cast(pa.binary())
            parts.append(by_group_many(some).cast(pa.large_binary()))
        rows = pa.concat_arrays(parts)
        rows = rows.take(pc.array_sort_indices(rows))  # other threads run in between
        low, high = first_group.to_bytes(2, "big"), last_group.to_bytes(2, "big")
        for at in range(0, len(rows), AT_ONCE):
            for row in rows[at : at + AT_ONCE].to_pylist():
                if low <= row[:2] <= high:
                    yield row

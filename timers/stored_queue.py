"""Timers in a store of sorted rows, such as a column family of RocksDB.

Only the next timers are in memory: a heap contains every stored timer up to a horizon, filled from
the first rows of each key group. Timers past the horizon are rows only, so millions of them need
no objects. Every change is written at once.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

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

READ_AHEAD = 128
"""Timers per key group that are read at once, as in Flink's cache."""

END = b"\xff" * 8
NOTHING = b""


class TimerStore(Protocol):
    """Sorted rows without values."""

    def has(self, rows: Sequence[bytes]) -> list[bool]:
        """Whether each row exists."""

    def write(self, added: Iterable[bytes], removed: Iterable[bytes]) -> None:
        """Add and remove rows, all or none."""

    def due(self, starts: Sequence[bytes], end: bytes, limit: int) -> list[list[bytes]]:
        """Up to `limit` rows of each group from its start on, with times up to this.

        The rows of a group are together; groups without rows are left out.
        """

    def remove_ranges(self, ranges: Iterable[tuple[bytes, bytes]]) -> None:
        """Remove all rows from the first to the last of each pair, both included, all or none."""

    def scan(self, start: bytes, prefix: bytes) -> Iterator[bytes]:
        """Rows from `start` on that begin with `prefix`, in order."""


class StoredTimerQueue:
    """A `TimerQueue` over a `TimerStore`."""

    def __init__(self, codec: TimerCodec, store: TimerStore, groups: range) -> None:
        """The timers that the store has in these key groups."""
        self._codec = codec
        self._store = store
        self._groups = groups
        self._ahead: list[bytes] = []
        # No row of a group is before its start: a search need not skip rows that were removed.
        self._starts = {group: group.to_bytes(2, "big") for group in groups}
        self._horizon = NOTHING  # the time up to which all stored timers are in `_ahead`
        self._size = sum(1 for _ in self.rows(groups[0], groups[-1]))

    def add(self, timer: Timer) -> bool:
        """Add a timer; return whether it is new."""
        return self._add([self._codec.encode(timer)]) == 1

    def add_rows(self, rows: pa.BinaryArray) -> int:
        """Add the timers of these rows, all or none; return how many are new."""
        distinct: list[bytes] = rows.unique().sort().to_pylist()
        return self._add(distinct)

    def _add(self, distinct: list[bytes]) -> int:
        there = self._store.has(distinct)
        fresh = [row for row, known in zip(distinct, there, strict=True) if not known]
        self._store.write(fresh, ())
        self._size += len(fresh)
        for row in fresh:
            group = int.from_bytes(row[:2], "big")
            self._starts[group] = min(self._starts[group], row)
            if row[2:10] <= self._horizon:
                heapq.heappush(self._ahead, by_time(row))
        return len(fresh)

    def poll_rows(self, until_ms: int, limit: int) -> pa.BinaryArray:
        """Remove and return up to `limit` timers that are not later than this, by key group."""
        starts = [self._starts[group] for group in self._groups]
        parts = self._store.due(starts, time_bytes(until_ms), limit)
        self._store.remove_ranges([(rows[0], rows[-1]) for rows in parts])
        for rows in parts:
            self._starts[int.from_bytes(rows[0][:2], "big")] = rows[-1]
        found = [row for rows in parts for row in rows]
        self._size -= len(found)
        return pa.array(found, pa.binary())

    def remove(self, timer: Timer) -> bool:
        """Remove a timer; return whether it existed."""
        row = self._codec.encode(timer)
        if not self._store.has((row,))[0]:
            return False
        self._remove(row)
        return True

    def _remove(self, row: bytes) -> None:
        self._store.write((), (row,))
        self._size -= 1

    def _first(self) -> bytes | None:
        """The first timer's row; entries of removed timers are dropped."""
        while True:
            while self._ahead:
                row = by_group(self._ahead[0])
                if self._store.has((row,))[0]:
                    return row
                heapq.heappop(self._ahead)
            if self._horizon == END or not self._size:
                return None
            self._read_ahead()

    def _read_ahead(self) -> None:
        """Move the horizon forward, to where every group has been read up to."""
        after = self._horizon
        found: list[bytes] = []
        horizon = END
        for group in self._groups:
            prefix = group.to_bytes(2, "big")
            last, count = NOTHING, 0
            for row in self._store.scan(prefix + after, prefix):
                time = row[2:10]
                if after and time <= after:
                    continue
                if count >= READ_AHEAD and time != last:
                    horizon = min(horizon, last)
                    break
                last, count = time, count + 1
                found.append(by_time(row))
        self._ahead = [entry for entry in found if entry[:8] <= horizon]
        heapq.heapify(self._ahead)
        self._horizon = horizon

    def peek_ms(self) -> int | None:
        """The earliest time; None if there is no timer."""
        first = self._first()
        return None if first is None else time_of(first)

    def poll(self, until_ms: int) -> Timer | None:
        """Remove and return the first timer, unless it is later than this."""
        first = self._first()
        if first is None or first[2:10] > time_bytes(until_ms):
            return None
        heapq.heappop(self._ahead)
        self._remove(first)
        return self._codec.decode(first)

    def times_ms(self) -> npt.NDArray[np.int64]:
        """The times of all timers, in any order; reads all rows."""
        return times_in(row[2:10] for row in self.rows(self._groups[0], self._groups[-1]))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Timer]:
        return map(self._codec.decode, self.rows(self._groups[0], self._groups[-1]))

    def rows(self, first_group: int, last_group: int) -> Iterator[bytes]:
        """Rows of the timers of these key groups, first and last included, in order."""
        for group in range(first_group, last_group + 1):
            prefix = group.to_bytes(2, "big")
            yield from self._store.scan(prefix, prefix)

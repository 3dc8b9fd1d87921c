"""Timers on runs: one row each, in order of time, the next ones and the newest in memory.

A row's place in a run is its time, followed by some bits of a hash, so that a search also finds one
of several timers of the same time. So the next timers are the first rows. They move into a queue on
heap in portions; new timers are added there too. Timers that are added or removed one at a time are
not looked up: which of them the runs have is checked for all together, when their number is asked
for or rows are written back.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Flags, Positions
from idlestate.backends.runs.changed_rows import WrittenRows, rows_of
from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.runs.table_runs import LOWEST_HASH, Runs
from idlestate.state.heap.heap_timers import ColumnTimerQueue
from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.runs.all_rows import all_timers, sorted_timers
from idlestate.state.timer_rows import by_time_many, times_of
from idlestate.timers.timer import Timer, TimerCodec

AHEAD: Final = 1 << 12
"""Timers that move into memory at once."""

_HASH_BITS: Final = 17
_HASHES: Final = (1 << _HASH_BITS) - 1
_LAST_MS: Final = (1 << 63 - _HASH_BITS) - 1
"""Times further from 1970 than this, some two thousand years, share a place."""


def places_of(rows: pa.BinaryArray) -> Positions:
    """The places of timers in a run: by time, then by hash."""
    times = np.clip(times_of(by_time_many(rows)), -_LAST_MS - 1, _LAST_MS)
    found: Positions = (times << _HASH_BITS) | (hash_keys([rows]) & _HASHES)
    return found


def _last_place(time_ms: int) -> int:
    """The last place of timers with this time."""
    return min(max(time_ms, -_LAST_MS - 1), _LAST_MS) << _HASH_BITS | _HASHES


class RunsTimerQueue:
    """A `TimerQueue` on runs.

    Attributes:
        stored: the runs.
    """

    def __init__(self, codec: TimerCodec, stored: Runs) -> None:
        """The timers of the runs."""
        self._codec = codec
        self._at: int | None = LOWEST_HASH  # lower stored timers are in memory, or removed
        self._near = ColumnTimerQueue(codec)
        self.reset(stored)

    def reset(self, stored: Runs) -> None:
        """Start with all timers in these runs, and none in memory."""
        if (next_ms := self._near.peek_ms()) is not None:
            place = _last_place(next_ms) - _HASHES
            self._at = place if self._at is None else min(self._at, place)
        self.stored = stored
        self._near = ColumnTimerQueue(self._codec)
        self._gone: set[bytes] = set()  # were taken out, and may be stored
        self._size = stored.live  # right once it is known which of the following are stored
        self._added: list[bytes] = []
        self._removed: list[bytes] = []

    # -------------------------------------------------------------- adding and removing

    def add(self, timer: Timer) -> bool:
        """Add a timer; return whether it may be new."""
        if not self._near.add(timer):
            return False
        self._size += 1
        row = self._codec.encode(timer)
        if row in self._gone:
            self._gone.remove(row)
        elif self.stored.runs:
            self._added.append(row)
        return True

    def add_rows(self, rows: pa.BinaryArray) -> int:
        """Add the timers of these rows; return how many are new."""
        rows = rows.unique()
        is_back = self._are_gone(rows)
        fresh = rows.filter(pa.array(is_back | ~self._is_stored(rows)))
        if is_back.any():
            self._gone.difference_update(rows.filter(pa.array(is_back)).to_pylist())
        added = self._near.add_rows(fresh)
        self._size += added
        return added

    def remove(self, timer: Timer) -> bool:
        """Remove a timer; return whether it may have existed."""
        row = self._codec.encode(timer)
        is_near = self._near.remove(timer)
        if not is_near:
            if row in self._gone or not self.stored.runs:
                return False
            self._removed.append(row)
        self._take_out([row])
        return True

    def _take_out(self, rows: list[bytes]) -> None:
        self._size -= len(rows)
        if self.stored.runs:
            self._gone.update(rows)

    def _settle(self) -> None:
        """Correct the number of timers by what was not looked up when it was added or removed."""
        added, removed = pa.array(self._added, pa.binary()), pa.array(self._removed, pa.binary())
        self._added, self._removed = [], []
        self._size -= int(self._is_stored(added).sum())
        self._size += int((~self._is_stored(removed)).sum())

    def _are_gone(self, rows: pa.BinaryArray) -> Flags:
        if not self._gone:
            return np.zeros(len(rows), dtype=np.bool_)
        found: Flags = pc.is_in(rows, pa.array(self._gone, pa.binary())).to_numpy(
            zero_copy_only=False
        )
        return found

    def _is_stored(self, rows: pa.BinaryArray) -> Flags:
        """Whether the runs have each of these timers, which are not in memory."""
        found = np.zeros(len(rows), dtype=np.bool_)
        if self.stored.runs and self._at is not None and len(rows):
            places = places_of(rows)
            far = np.flatnonzero(places >= self._at)
            found[far] = self._found(rows.take(pa.array(far)), places[far]) >= 0
        return found

    def _found(self, rows: pa.BinaryArray, places: Positions) -> Positions:
        """The positions of timers in the runs."""
        found = np.full(len(rows), -1)
        if self.stored.runs and len(rows):
            order = np.argsort(places)
            found[order], _ = self.stored.look_up(places[order], [rows.take(pa.array(order))])
        return found

    # -------------------------------------------------------------- taking the next ones

    def peek_ms(self) -> int | None:
        """The earliest time; None if there is no timer."""
        while True:
            next_ms = self._near.peek_ms()
            if self._at is None or (next_ms is not None and self._at > _last_place(next_ms)):
                return next_ms
            self._pull(AHEAD)

    def poll(self, until_ms: int) -> Timer | None:
        """Take the first timer out, unless it is later than this."""
        self.peek_ms()
        timer = self._near.poll(until_ms)
        if timer is not None:
            self._take_out([self._codec.encode(timer)])
        return timer

    def poll_rows(self, until_ms: int, limit: int) -> pa.BinaryArray:
        """Take out at most this many timers that are not later than this; return their rows."""
        parts, left = list[pa.BinaryArray](), limit
        while True:
            parts.append(self._near.poll_rows(until_ms, left))
            self._take_out(parts[-1].to_pylist())  # the runs may have them too
            left -= len(parts[-1])
            if not left or self._at is None or self._at > _last_place(until_ms):
                return pa.concat_arrays(parts)
            self._pull(max(left, AHEAD))

    def _pull(self, most: int) -> None:
        """Move the next stored timers into memory."""
        assert self._at is not None
        self._settle()  # `_at`, which moves now, says which timers only the runs have
        rows, self._at = self.stored.open_rows(self._at, most)
        self._near.add_rows(rows.keys[0].filter(pa.array(~self._are_gone(rows.keys[0]))))

    # -------------------------------------------------------------- all timers

    def times_ms(self) -> Positions:
        """The times of all timers, in any order; reads all rows."""
        return times_of(by_time_many(self._all()))

    def __len__(self) -> int:
        self._settle()
        return self._size

    def __iter__(self) -> Iterator[Timer]:
        return map(self._codec.decode, sorted_timers(self._all()))

    def rows(self, first_group: int, last_group: int) -> Iterator[bytes]:
        """Rows of the timers of these key groups, both included, in order."""
        return sorted_timers(self._all(), KeyGroupRange(first_group, last_group))

    def _all(self) -> pa.BinaryArray:
        stored = all_timers(self.stored)
        stored = stored.filter(pa.array(~self._are_gone(stored)))
        return pa.concat_arrays([stored, self._near.all_rows()]).unique()

    def usage_bytes(self) -> int:
        """Memory of the timers that are not in the runs."""
        return self._near.usage().total_bytes

    def changed(self) -> WrittenRows | None:
        """The changes to write; None if there are none."""
        near = self._near.all_rows()
        gone = pa.array(self._gone, pa.binary())
        near_places, gone_places = places_of(near), places_of(gone)
        is_new = self._found(near, near_places) < 0
        at = self._found(gone, gone_places)
        was = at >= 0
        if not is_new.any() and not was.any():
            return None
        places = np.concatenate([near_places[is_new], gone_places[was]])
        keys = pa.concat_arrays([near.filter(pa.array(is_new)), gone.filter(pa.array(was))])
        are_gone = np.arange(len(places)) >= int(is_new.sum())
        live = self.stored.live + int(is_new.sum()) - int(was.sum())
        return WrittenRows(rows_of(places, keys, are_gone), at[was], live)

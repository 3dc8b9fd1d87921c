"""How a sequence of accesses falls into lives, for many keys at once.

A key's records come in ascending time. One after the other they would be judged like this: a
write that finds no open life begins one (closing the ended life, if there is one), a write that
finds the life open belongs to it, a read that finds it open moves `read_at`, any other read
leaves no trace. `walk` reaches the same result without going record by record:

1. The life a key already has becomes a row of its own before the key's records, so that old and
   new are one sequence.
2. Keys whose last record neither reaches the deadline nor re-arms have one life: done.
3. For the others each row points at the next one that would re-arm or end a life armed there (a
   binary search, since times ascend). Following such pointers by doubling gives the row where
   each possible life would end, then the rows at which lives really begin, then the last row
   that armed each. That is O(n log n) array steps however often one hot key is re-armed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.retention.policy import FOREVER_MS, Policy, UpdateType
from idlestate.retention.rules import (
    NEVER_MS,
    Ends,
    Times,
    armed_cleanup_at,
    cleanup_at,
    ends,
    is_due,
    last_access,
    needs_rearm,
    saturating_add,
)

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Lives:
    """Times of lives, int64 milliseconds of equal length; `NEVER_MS` where there is none."""

    created_at_ms: Times
    written_at_ms: Times
    read_at_ms: Times
    armed_at_ms: Times

    def __len__(self) -> int:
        return len(self.created_at_ms)

    def take(self, rows: npt.NDArray[np.int64] | Flags) -> "Lives":
        """The lives at these positions or under this mask."""
        return Lives(
            self.created_at_ms[rows],
            self.written_at_ms[rows],
            self.read_at_ms[rows],
            self.armed_at_ms[rows],
        )

    def last_access_ms(self, policy: Policy) -> Times:
        """The last access that counts under `policy.update`."""
        touched: Times = last_access(self.written_at_ms, self.read_at_ms, policy.update)
        return touched

    def cleanup_at_ms(self, policy: Policy) -> Times:
        """The idle rule's cleanup time under this policy."""
        due: Times = cleanup_at(self.armed_at_ms, self.last_access_ms(policy), policy)
        return due

    def ends(self, policy: Policy) -> Ends:
        """Deadline and reason of each life under this policy."""
        base = last_access(self.written_at_ms, self.read_at_ms, policy.ttl_update)
        return ends(self.created_at_ms, base, self.cleanup_at_ms(policy), policy)


@dataclass(frozen=True, slots=True)
class Accesses:
    """Records of k keys: key i owns the next `counts[i]` (>= 1) rows of `t_ms` and `is_read`.

    Times of one key never descend. `is_read` is None when every record is a write.
    """

    counts: Rows
    t_ms: Times
    is_read: Flags | None


@dataclass(frozen=True, slots=True)
class Walk:
    """What `walk` found, over rows = old lives and records in one sequence per key.

    `source` says where each row came from: below m it is the m-th old life, else record
    `source - m`. Everything else has one entry per life, in order of key and time.
    """

    source: Rows
    life_start: Rows
    """The row at which the life begins; its records are the rows up to the next start."""
    key: Rows
    lives: Lives
    ends: Ends
    is_closed: Flags
    """A later write of the same key closed it."""
    is_old: Flags
    """It is the key's life from the table."""
    is_touched: Flags
    """An access of this batch counted in it."""
    is_trackless: Flags
    """Per record, not per life: a read that found no open life."""


def walk(accesses: Accesses, old: Lives, has_old: Flags, policy: Policy) -> Walk:
    """Split accesses into lives.

    Args:
        accesses: the records of k keys, times ascending per key.
        old: the m lives that keys have in the table, in key order.
        has_old: for each key whether it has one (m of k are true).
        policy: the policy in force.
    """
    rows = _lay_out(accesses, old, has_old, policy)
    is_start = np.zeros(len(rows.t_ms), dtype=bool)
    first_write = rows.next_write[rows.starts]
    begins = first_write < rows.stops
    is_start[first_write[begins]] = True
    anchor = np.arange(len(rows.t_ms))
    busy = begins & ~_is_quiet(rows, np.minimum(first_write, rows.stops - 1), policy)
    if busy.any():
        picked = np.flatnonzero(np.repeat(busy, rows.stops - rows.starts))
        chain_start, chain_anchor = _follow(rows.pick(picked, busy), policy)
        is_start[picked] = chain_start
        anchor[picked] = picked[chain_anchor]
    return _summarise(rows, is_start, anchor, old, policy)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Rows of old lives and records, with what each would be as the start of a life."""

    source: Rows
    starts: Rows
    stops: Rows
    key: Rows
    t_ms: Times
    write_ms: Times
    created_ms: Times
    cleanup_ms: Times
    arm_from_ms: Times
    """`cleanup_ms`, or `NEVER_MS` where any access arms."""
    is_old: Flags
    is_write: Flags
    next_write: Rows
    """The first write at or after a row, of any key; the number of rows when there is none."""

    def pick(self, picked: Rows, keys: Flags) -> "_Layout":
        """The layout of some keys alone."""
        sizes = (self.stops - self.starts)[keys]
        stops = np.cumsum(sizes)
        is_write = self.is_write[picked]
        return _Layout(
            self.source[picked],
            stops - sizes,
            stops,
            np.repeat(np.arange(len(sizes)), sizes),
            self.t_ms[picked],
            self.write_ms[picked],
            self.created_ms[picked],
            self.cleanup_ms[picked],
            self.arm_from_ms[picked],
            self.is_old[picked],
            is_write,
            _next_true(is_write),
        )


def _lay_out(accesses: Accesses, old: Lives, has_old: Flags, policy: Policy) -> _Layout:
    sizes = accesses.counts + has_old
    stops = np.cumsum(sizes)
    starts = stops - sizes
    total = int(stops[-1]) if len(stops) else 0
    m = len(old)
    old_rows = starts[has_old]
    is_old = np.zeros(total, dtype=bool)
    is_old[old_rows] = True
    source = np.empty(total, dtype=np.int64)
    source[old_rows] = np.arange(m)
    source[~is_old] = np.arange(m, total)
    t_ms = np.concatenate([np.maximum(old.written_at_ms, old.read_at_ms), accesses.t_ms])[source]
    floor = np.full(len(sizes), NEVER_MS)
    floor[has_old] = t_ms[old_rows]
    t_ms = np.maximum(t_ms, np.repeat(floor, sizes))
    if accesses.is_read is None:
        is_write = np.ones(total, dtype=bool)
        next_write = np.arange(total + 1)
    else:
        is_write = np.concatenate([np.ones(m, dtype=bool), ~accesses.is_read])[source]
        next_write = _next_true(is_write)
    write_ms, created_ms = t_ms.copy(), t_ms.copy()
    write_ms[old_rows] = old.written_at_ms
    created_ms[old_rows] = old.created_at_ms
    if policy.idle_on:
        cleanup_ms = armed_cleanup_at(t_ms, policy.idle_max_ms)
        cleanup_ms[old_rows] = old.cleanup_at_ms(policy)
        arm_from_ms = cleanup_ms.copy()
        arm_from_ms[old_rows[old.armed_at_ms == NEVER_MS]] = NEVER_MS
    else:
        cleanup_ms = arm_from_ms = np.full(total, FOREVER_MS)
    key = np.repeat(np.arange(len(sizes)), sizes)
    return _Layout(
        source, starts, stops, key, t_ms, write_ms, created_ms, cleanup_ms, arm_from_ms,
        is_old, is_write, next_write,
    )  # fmt: skip


def _is_quiet(rows: _Layout, start: Rows, policy: Policy) -> Flags:
    """For each key: whether its last record neither ends nor re-arms the life begun at `start`."""
    last_ms = rows.t_ms[rows.stops - 1]
    quiet = np.ones(len(last_ms), dtype=bool)
    if policy.idle_on:
        quiet &= ~is_due(rows.cleanup_ms[start], last_ms)
        quiet &= ~needs_rearm(last_ms, rows.arm_from_ms[start], policy.idle_min_ms)
    if policy.ttl_ms:
        quiet &= ~is_due(saturating_add(rows.write_ms[start], policy.ttl_ms), last_ms)
    if policy.max_lifetime_ms:
        quiet &= ~is_due(saturating_add(rows.created_ms[start], policy.max_lifetime_ms), last_ms)
    return quiet


def _follow(rows: _Layout, policy: Policy) -> tuple[Flags, Rows]:
    """Where lives start, and for each start the row that armed it last."""
    n = len(rows.t_ms)
    stop = np.repeat(rows.stops, rows.stops - rows.starts)
    here = np.arange(n)
    arms, breaks = _next_arming(rows, stop, policy)
    keeps = (arms < n) & ~breaks
    root = _roots(np.where(keeps, arms, here))
    end = np.where(breaks[root], arms[root], n)
    ttl_dead = _dead_by_ttl(rows, policy) if policy.ttl_ms else None
    if ttl_dead is not None:
        forced = _next_true(ttl_dead & rows.is_write)[1:]
        end = np.minimum(end, np.where(forced < stop, forced, n))
    if policy.max_lifetime_ms:
        life_end_ms = saturating_add(rows.created_ms, policy.max_lifetime_ms)
        past = _first_row(here + 1, stop, lambda at, row: is_due(life_end_ms[row], rows.t_ms[at]))
        successor = rows.next_write[past]
        end = np.minimum(end, np.where(successor < stop, successor, n))
    first = rows.next_write[rows.starts]
    is_start = _reached(first[first < rows.stops], end)
    if ttl_dead is not None or policy.max_lifetime_ms:
        life_start = np.maximum.accumulate(np.where(is_start, here, 0))
        target = np.minimum(arms, n - 1)
        keeps &= life_start[target] == life_start
        if ttl_dead is not None:
            keeps &= ~ttl_dead[target]
        if policy.max_lifetime_ms:
            keeps &= ~is_due(life_end_ms[life_start], rows.t_ms[target])
        root = _roots(np.where(keeps, arms, here))
    return is_start, root


def _next_arming(rows: _Layout, stop: Rows, policy: Policy) -> tuple[Rows, Flags]:
    """For a life armed at each row: the next row that arms, and whether it does so by ending it.

    A read that comes after the end arms nothing; the write after it then begins a new life. The
    row is n when nothing follows.
    """
    n = len(rows.t_ms)
    if not policy.idle_on:
        return np.full(n, n), np.zeros(n, dtype=bool)
    min_ms = policy.idle_min_ms
    row = _first_row(
        np.arange(n) + 1,
        stop,
        lambda at, row: needs_rearm(rows.t_ms[at], rows.arm_from_ms[row], min_ms),
    )
    if policy.update is UpdateType.ON_CREATE_AND_WRITE:
        row = rows.next_write[row]
    row = np.where(row < stop, row, n)
    at = np.minimum(row, n - 1)
    ended = is_due(rows.cleanup_ms, rows.t_ms[at])
    row = np.where(ended & (row < n), rows.next_write[at], row)
    row = np.where(row < stop, row, n)
    return row, ended & (row < n)


def _dead_by_ttl(rows: _Layout, policy: Policy) -> Flags:
    """Rows that come at or after the end that ttl sets to the life of the last write."""
    n = len(rows.t_ms)
    last_write = np.maximum.accumulate(np.where(rows.is_write, np.arange(n), -1))
    previous = np.concatenate([[-1], last_write[:-1]])
    first = np.repeat(rows.starts, rows.stops - rows.starts)
    follows = previous >= first
    previous = np.maximum(previous, 0)
    if policy.ttl_update is UpdateType.ON_CREATE_AND_WRITE:
        due_ms = saturating_add(rows.write_ms[previous], policy.ttl_ms)
        return follows & is_due(due_ms, rows.t_ms)
    # Reads count too: dead from the first gap of a ttl since the last write.
    before_ms = np.concatenate([[NEVER_MS], rows.t_ms[:-1]])
    gap = follows & is_due(saturating_add(before_ms, policy.ttl_ms), rows.t_ms)
    gaps = np.cumsum(gap)
    return follows & (gaps > gaps[previous])


def _summarise(rows: _Layout, is_start: Flags, anchor: Rows, old: Lives, policy: Policy) -> Walk:
    n = len(rows.t_ms)
    start = np.flatnonzero(is_start)
    key = rows.key[start]
    stop = rows.stops[key]
    is_closed = np.zeros(len(start), dtype=bool)
    if len(start):
        is_closed[:-1] = key[1:] == key[:-1]
        stop[:-1] = np.where(is_closed[:-1], start[1:], stop[:-1])
    is_old = rows.is_old[start]
    old_at = rows.source[start[is_old]]
    created = rows.created_ms[start]
    armed_row = anchor[start]
    cleanup = rows.cleanup_ms[armed_row]
    armed = rows.t_ms[armed_row] if policy.idle_on else np.full(len(start), NEVER_MS)
    armed_in_table = is_old & rows.is_old[armed_row] if policy.idle_on else is_old
    armed[armed_in_table] = old.armed_at_ms[rows.source[start[armed_in_table]]]
    last_write = np.maximum.accumulate(np.where(rows.is_write, np.arange(n), 0))[stop - 1]
    written = rows.write_ms[last_write]
    read = np.full(len(start), NEVER_MS)
    read[is_old] = old.read_at_ms[old_at]
    is_touched = ~is_old | (last_write > start)
    is_trackless = ~rows.is_write
    if len(start) and is_trackless.any():
        counted_ms = _counted_reads(rows, is_start, start, created, cleanup, policy)
        newest = np.maximum.reduceat(counted_ms, start)
        is_touched |= newest != NEVER_MS
        read = np.maximum(read, newest)
        is_trackless &= counted_ms == NEVER_MS
    lives = Lives(created, written, read, armed)
    base = last_access(written, read, policy.ttl_update)
    found = ends(created, base, cleanup, policy)
    return Walk(
        rows.source, start, key, lives, found, is_closed, is_old, is_touched,
        is_trackless[~rows.is_old],
    )  # fmt: skip


def _counted_reads(
    rows: _Layout, is_start: Flags, start: Rows, created: Times, cleanup: Times, policy: Policy
) -> Times:
    """Times of the reads that find their life open, `NEVER_MS` for every other row."""
    life = np.maximum(np.cumsum(is_start) - 1, 0)
    in_life = (rows.key[start[life]] == rows.key) & (start[life] <= np.arange(len(life)))
    counts = ~rows.is_write & in_life
    counts &= ~is_due(cleanup[life], rows.t_ms) if policy.idle_on else True
    if policy.max_lifetime_ms:
        end_ms = saturating_add(created, policy.max_lifetime_ms)
        counts &= ~is_due(end_ms[life], rows.t_ms)
    if policy.ttl_ms:
        counts &= ~_dead_by_ttl(rows, policy)
    return np.where(counts, rows.t_ms, NEVER_MS)


def _first_row(lo: Rows, hi: Rows, past: Callable[[Rows, Rows], Flags]) -> Rows:
    """For each row the first position in [lo, hi) for which `past(position, row)` holds, else hi.

    `past` must be monotone: once true it stays true up to hi.
    """
    lo, hi = lo.copy(), hi.copy()
    open_rows = np.flatnonzero(lo < hi)
    while len(open_rows):
        middle = (lo[open_rows] + hi[open_rows]) // 2
        found = past(middle, open_rows)
        hi[open_rows[found]] = middle[found]
        lo[open_rows[~found]] = middle[~found] + 1
        open_rows = open_rows[lo[open_rows] < hi[open_rows]]
    return lo


def _next_true(flags: Flags) -> Rows:
    """For each position 0..n the first true position at or after it; n when there is none."""
    n = len(flags)
    positions = np.append(np.where(flags, np.arange(n), n), n)
    return np.minimum.accumulate(positions[::-1])[::-1]


def _roots(successor: Rows) -> Rows:
    """The fixed point each row reaches by following `successor` (which never points back)."""
    while True:
        further = successor[successor]
        if np.array_equal(further, successor):
            return successor
        successor = further


def _reached(origins: Rows, successor: Rows) -> Flags:
    """The rows reached from `origins` by following `successor`, which ends at n."""
    n = len(successor)
    marks = np.zeros(n + 1, dtype=bool)
    marks[origins] = True
    hop = np.append(successor, n)
    while (hop[:n] < n).any():
        marks[hop[np.flatnonzero(marks)]] = True
        hop = hop[hop]
    return marks[:n]

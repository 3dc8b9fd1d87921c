"""Divides accesses into lives, for many keys at once.

The records of a key have ascending times. Record by record, the rule is: a write without an open
life starts one, and closes the ended life if there is one; a write with an open life belongs to it;
a read with an open life sets `read_at`; other reads change nothing. If lives are written once, by
the record that starts them, all later records of a life are reads, and change something only if a
rule counts from reads. `walk` computes the same without a loop over records:

1. A key's open life becomes a row before the key's records, so that old and new are one
   sequence.
2. Keys whose last record neither reaches the deadline nor re-arms have one life.
3. For the others, pointers from row to row are followed by doubling (`retention.rearming`):
   O(n log n) array steps, however often a hot key is re-armed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from idlestate.retention.life_rows import Flags, LifeLayout, Rows, next_true
from idlestate.retention.pointer_jumping import dead_by_ttl, follow, is_quiet
from idlestate.retention.policy import FOREVER_MS, Policy, UpdateType
from idlestate.retention.rules import (
    NEVER_MS,
    Ends,
    Times,
    armed_cleanup_at,
    cleanup_at,
    deadline,
    ends,
    is_due,
    last_access,
    saturating_add,
)


@dataclass(frozen=True, slots=True)
class Lives:
    """Times of lives, int64 milliseconds of equal length; `NEVER_MS` where there is none."""

    created_at_ms: Times
    written_at_ms: Times
    read_at_ms: Times
    armed_at_ms: Times
    wakes_at_ms: Times | None = None
    """The next timer of each life, `FOREVER_MS` without one; None if lives have no timers."""

    def __len__(self) -> int:
        return len(self.created_at_ms)

    @property
    def columns(self) -> tuple[Times, ...]:
        """The four times, and a fifth if lives have timers."""
        four = self.created_at_ms, self.written_at_ms, self.read_at_ms, self.armed_at_ms
        return four if self.wakes_at_ms is None else (*four, self.wakes_at_ms)

    def take(self, rows: Rows | Flags) -> "Lives":
        """The lives at these positions or under this mask."""
        return Lives(*(column[rows] for column in self.columns))

    @property
    def with_wakes(self) -> "Lives":
        """The same lives with a fifth time, even if they have no timers."""
        if self.wakes_at_ms is not None:
            return self
        return replace(self, wakes_at_ms=np.full(len(self), FOREVER_MS))

    @classmethod
    def joined(cls, parts: Sequence["Lives"]) -> "Lives":
        """The concatenated lives of at least one part."""
        if len(parts) == 1:
            return parts[0]
        if any(part.wakes_at_ms is not None for part in parts):
            parts = [part.with_wakes for part in parts]
        return cls(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True)))

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
        return ends(*self._bounds_ms(policy), policy)

    def due_ms(self, policy: Policy) -> Times:
        """When each life is due: at its deadline or, if earlier, its timer."""
        deadline_ms: Times = deadline(*self._bounds_ms(policy), policy)
        if self.wakes_at_ms is None:
            return deadline_ms
        return np.minimum(deadline_ms, self.wakes_at_ms)

    def _bounds_ms(self, policy: Policy) -> tuple[Times, Times, Times]:
        """The inputs of deadlines, as arguments of `rules.ends`."""
        base = last_access(self.written_at_ms, self.read_at_ms, policy.ttl_update)
        return self.created_at_ms, base, self.cleanup_at_ms(policy)


@dataclass(frozen=True, slots=True)
class Accesses:
    """Records of k keys: key i owns the next `counts[i]` (>= 1) rows of `t_ms` and `is_read`.

    Times of a key never descend. `is_read` is None if every record is a write, and if lives are
    written once (`writes_once`): then only the record that starts a life is a write.
    """

    counts: Rows
    t_ms: Times
    is_read: Flags | None
    writes_once: bool = False
    begins_ms: Times | None = None
    """For keys that are windows: when a life of each counts as created. A window has only one life,
    with all its records.
    """


@dataclass(frozen=True, slots=True)
class DividedLives:
    """The result of `walk`, over rows = old lives and records in one sequence per key.

    `source` is the origin of each row: below m, the old life of this number, else the record
    `source - m`. All other arrays have one entry per life, in order of key and time.
    """

    source: Rows
    life_start: Rows
    """The row at which the life begins; its records are the rows up to the next start."""
    key: Rows
    lives: Lives
    ends: Ends
    is_closed: Flags
    """Whether a later write of the same key closed the life."""
    is_old: Flags
    """Whether the life was open before the batch."""
    is_touched: Flags
    """Whether an access of this batch belongs to the life."""
    is_trackless: Flags
    """Per record, not per life: whether it is a read without an open life."""


def walk(accesses: Accesses, old: Lives, has_old: Flags, policy: Policy) -> DividedLives:
    """Split accesses into lives.

    Args:
        accesses: the records of k keys, times ascending per key.
        old: the m lives that keys have in the table, in key order.
        has_old: whether each key has one (m of k are true).
        policy: the policy in force.
    """
    dividing = Policy() if accesses.begins_ms is not None else policy
    moving, fixed = _parted(dividing, writes_once=accesses.writes_once)
    rows = _lay_out(accesses, old, has_old, moving, fixed)
    is_start = np.zeros(len(rows.t_ms), dtype=bool)
    first_write = rows.next_write[rows.starts]
    begins = first_write < rows.stops
    is_start[first_write[begins]] = True
    anchor = np.arange(len(rows.t_ms))
    busy = begins & ~is_quiet(rows, np.minimum(first_write, rows.stops - 1), moving)
    if busy.any():
        picked = np.flatnonzero(np.repeat(busy, rows.stops - rows.starts))
        chain_start, chain_anchor = follow(rows.pick(picked, busy), moving)
        is_start[picked] = chain_start
        anchor[picked] = picked[chain_anchor]
    return _summarise(rows, is_start, anchor, old, policy, writes_once=accesses.writes_once)


def _parted(policy: Policy, *, writes_once: bool) -> tuple[Policy, Policy]:
    """The rules whose end later accesses can move, and those whose end is fixed at the start of a
    life.
    """
    moving, fixed = replace(policy, max_lifetime_ms=0), replace(policy, idle_min_ms=0, ttl_ms=0)
    if not writes_once:
        return moving, fixed
    if policy.update is UpdateType.ON_CREATE_AND_WRITE:
        moving = replace(moving, idle_min_ms=0)
        fixed = replace(fixed, idle_min_ms=policy.idle_min_ms)
    if policy.ttl_update is UpdateType.ON_CREATE_AND_WRITE:
        moving, fixed = replace(moving, ttl_ms=0), replace(fixed, ttl_ms=policy.ttl_ms)
    return moving, fixed


def _lay_out(
    accesses: Accesses, old: Lives, has_old: Flags, policy: Policy, fixed: Policy
) -> LifeLayout:
    sizes = accesses.counts + has_old
    stops = np.cumsum(sizes)
    starts = stops - sizes
    total = int(stops[-1]) if len(stops) else 0
    m = len(old)
    old_rows = starts[has_old]
    is_old = np.zeros(total, dtype=bool)
    is_old[old_rows] = True
    source = np.arange(m, m + total) - np.repeat(np.cumsum(has_old), sizes)
    source[old_rows] = np.arange(m)
    t_ms = np.concatenate([np.maximum(old.written_at_ms, old.read_at_ms), accesses.t_ms])[source]
    if (t_ms[old_rows] > t_ms[np.minimum(old_rows + 1, total - 1)]).any():
        floor = np.full(len(sizes), NEVER_MS)
        floor[has_old] = t_ms[old_rows]
        t_ms = np.maximum(t_ms, np.repeat(floor, sizes))
    if accesses.is_read is None:
        is_write = np.ones(total, dtype=bool)
        next_write = np.arange(total + 1)
    else:
        is_write = np.concatenate([np.ones(m, dtype=bool), ~accesses.is_read])[source]
        next_write = next_true(is_write)
    write_ms, created_ms = t_ms.copy(), t_ms.copy()
    if accesses.begins_ms is not None:
        created_ms = np.repeat(accesses.begins_ms, sizes)
    write_ms[old_rows] = old.written_at_ms
    created_ms[old_rows] = old.created_at_ms
    if policy.idle_on:
        cleanup_ms = armed_cleanup_at(t_ms, policy.idle_max_ms)
        cleanup_ms[old_rows] = old.cleanup_at_ms(policy)
        arm_from_ms = cleanup_ms.copy()
        arm_from_ms[old_rows[old.armed_at_ms == NEVER_MS]] = NEVER_MS
    else:
        cleanup_ms = arm_from_ms = np.full(total, FOREVER_MS)
    fixed_end_ms = None
    if not fixed.is_unbounded:
        never = np.full(total, NEVER_MS)
        fixed_end_ms = Lives(created_ms, created_ms, never, t_ms).ends(fixed).deadline_ms
        fixed_end_ms[old_rows] = old.ends(fixed).deadline_ms
    key = np.repeat(np.arange(len(sizes)), sizes)
    return LifeLayout(
        source, starts, stops, key, t_ms, write_ms, created_ms, fixed_end_ms, cleanup_ms,
        arm_from_ms, is_old, is_write, next_write,
    )  # fmt: skip


def _summarise(
    rows: LifeLayout,
    is_start: Flags,
    anchor: Rows,
    old: Lives,
    policy: Policy,
    *,
    writes_once: bool,
) -> DividedLives:
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
    last_write = stop - 1
    if not rows.is_write.all():
        written_upto = np.maximum.accumulate(np.where(rows.is_write, np.arange(len(rows.t_ms)), 0))
        last_write = written_upto[last_write]
    read = np.full(len(start), NEVER_MS)
    read[is_old] = old.read_at_ms[old_at]
    is_touched = ~is_old | (last_write > start)
    if writes_once:
        is_found = last_write > start
        if UpdateType.ON_READ_AND_WRITE not in (policy.update, policy.ttl_update):
            is_found[:] = False
        is_touched = ~is_old | is_found
        # A read at the time of the write adds nothing: equal records may have been combined before.
        is_later = is_found & (rows.t_ms[last_write] > rows.write_ms[start])
        read[is_later] = rows.t_ms[last_write[is_later]]
        last_write = start
    written = rows.write_ms[last_write]
    if writes_once:
        cleanup = Lives(created, written, read, armed).cleanup_at_ms(policy)
    is_trackless = ~rows.is_write
    has_reads = bool(is_trackless.any())
    if len(start) and has_reads:
        counted_ms = _counted_reads(rows, is_start, start, created, cleanup, policy)
        newest = np.maximum.reduceat(counted_ms, start)
        is_touched |= newest != NEVER_MS
        read = np.maximum(read, newest)
        is_trackless &= counted_ms == NEVER_MS
    lives = Lives(created, written, read, armed)
    base = last_access(written, read, policy.ttl_update)
    found = ends(created, base, cleanup, policy)
    return DividedLives(
        rows.source, start, key, lives, found, is_closed, is_old, is_touched,
        is_trackless[~rows.is_old] if has_reads else is_trackless[len(old) :],
    )  # fmt: skip


def _counted_reads(
    rows: LifeLayout, is_start: Flags, start: Rows, created: Times, cleanup: Times, policy: Policy
) -> Times:
    """Times of the reads with an open life, `NEVER_MS` for all other rows."""
    life = np.maximum(np.cumsum(is_start) - 1, 0)
    in_life = (rows.key[start[life]] == rows.key) & (start[life] <= np.arange(len(life)))
    counts = ~rows.is_write & in_life
    counts &= ~is_due(cleanup[life], rows.t_ms) if policy.idle_on else True
    if policy.max_lifetime_ms:
        end_ms = saturating_add(created, policy.max_lifetime_ms)
        counts &= ~is_due(end_ms[life], rows.t_ms)
    if policy.ttl_ms:
        counts &= ~dead_by_ttl(rows, policy)
    return np.where(counts, rows.t_ms, NEVER_MS)

"""Finds where the lives of busy keys start and which row armed each last, by following pointers.

Each row points to the next one that would re-arm or end a life armed there. Following these
pointers by doubling gives the row where each possible life would end, then the rows at which lives
start, then the last row that armed each. This takes O(n log n) array steps, however often a hot
key is re-armed.
"""

from collections.abc import Callable

import numpy as np

from idlestate.retention.life_rows import Flags, LifeLayout, Rows, next_true
from idlestate.retention.policy import Policy, UpdateType
from idlestate.retention.rules import NEVER_MS, is_due, needs_rearm, saturating_add


def is_quiet(rows: LifeLayout, start: Rows, policy: Policy) -> Flags:
    """Whether each key's last record neither ends nor re-arms the life that starts at `start`."""
    last_ms = rows.t_ms[rows.stops - 1]
    quiet = np.ones(len(last_ms), dtype=bool)
    if policy.idle_on:
        quiet &= ~is_due(rows.cleanup_ms[start], last_ms)
        quiet &= ~needs_rearm(last_ms, rows.arm_from_ms[start], policy.idle_min_ms)
    if policy.ttl_ms:
        quiet &= ~is_due(saturating_add(rows.write_ms[start], policy.ttl_ms), last_ms)
    if rows.fixed_end_ms is not None:
        quiet &= ~is_due(rows.fixed_end_ms[start], last_ms)
    return quiet


def follow(rows: LifeLayout, policy: Policy) -> tuple[Flags, Rows]:
    """Where lives start, and for each start the row that armed it last."""
    n = len(rows.t_ms)
    stop = np.repeat(rows.stops, rows.stops - rows.starts)
    here = np.arange(n)
    arms, breaks = _next_arming(rows, stop, policy)
    keeps = (arms < n) & ~breaks
    root = _roots(np.where(keeps, arms, here))
    end = np.where(breaks[root], arms[root], n)
    ttl_dead = dead_by_ttl(rows, policy) if policy.ttl_ms else None
    if ttl_dead is not None:
        forced = next_true(ttl_dead & rows.is_write)[1:]
        end = np.minimum(end, np.where(forced < stop, forced, n))
    fixed_end_ms = rows.fixed_end_ms
    if fixed_end_ms is not None:
        past = _first_row(here + 1, stop, lambda at, row: is_due(fixed_end_ms[row], rows.t_ms[at]))
        successor = rows.next_write[past]
        end = np.minimum(end, np.where(successor < stop, successor, n))
    first = rows.next_write[rows.starts]
    is_start = _reached(first[first < rows.stops], end)
    if ttl_dead is not None or fixed_end_ms is not None:
        life_start = np.maximum.accumulate(np.where(is_start, here, 0))
        target = np.minimum(arms, n - 1)
        keeps &= life_start[target] == life_start
        if ttl_dead is not None:
            keeps &= ~ttl_dead[target]
        if fixed_end_ms is not None:
            keeps &= ~is_due(fixed_end_ms[life_start], rows.t_ms[target])
        root = _roots(np.where(keeps, arms, here))
    return is_start, root


def _next_arming(rows: LifeLayout, stop: Rows, policy: Policy) -> tuple[Rows, Flags]:
    """For a life armed at each row: the next row that arms, and whether it does so by ending it.

    A read after the end arms nothing; the next write starts a new life. The row is n if there is
    no next one.
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


def dead_by_ttl(rows: LifeLayout, policy: Policy) -> Flags:
    """Rows that come at or after the end that ttl sets to the life of the last write."""
    n = len(rows.t_ms)
    last_write = np.maximum.accumulate(np.where(rows.is_write, np.arange(n), -1))
    previous = np.concatenate([[-1], last_write[:-1]])
    first = np.repeat(rows.starts, rows.stops - rows.starts)
    follows = previous >= first
    previous = np.maximum(previous, 0)
    if policy.ttl_update is UpdateType.ON_CREATE_AND_WRITE:
        due_ms = saturating_add(rows.write_ms[previous], policy.ttl_ms)
        dead: Flags = follows & is_due(due_ms, rows.t_ms)
        return dead
    # Reads count too: ended from the first gap of a ttl since the last write.
    before_ms = np.concatenate([[NEVER_MS], rows.t_ms[:-1]])
    gap = follows & is_due(saturating_add(before_ms, policy.ttl_ms), rows.t_ms)
    gaps = np.cumsum(gap)
    since_last_write: Flags = follows & (gaps > gaps[previous])
    return since_last_write


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

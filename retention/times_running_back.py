"""Sequences in which time goes backwards.

For each key, time never goes backwards: a record counts at the latest time that its life has seen.
Writes, and reads of an open life, carry that time forward. A read without an open life changes
nothing, so it must not delay older records after it. Only the walk tells which reads those are:
`walk_sequence` first lets every record carry time forward, then removes the first read without
effect of each key that delayed a later record, and walks again.

Pipelines pass the records of a key in order of time; then the first walk is the last.
"""

from dataclasses import replace

import numpy as np

from idlestate.retention.life_rows import Flags, Rows
from idlestate.retention.lives import Accesses, DividedLives, Lives, walk
from idlestate.retention.policy import Policy
from idlestate.retention.rules import NEVER_MS, Times


def walk_sequence(accesses: Accesses, old: Lives, has_old: Flags, policy: Policy) -> DividedLives:
    """Split accesses in any order of time into lives; arguments as in `walk`."""
    if not _descends(accesses):
        return walk(accesses, old, has_old, policy)
    floor = np.full(len(accesses.counts), NEVER_MS)
    floor[has_old] = np.maximum(old.written_at_ms, old.read_at_ms)
    m = len(old)
    left = np.arange(len(accesses.t_ms))
    key = np.repeat(np.arange(len(accesses.counts)), accesses.counts)
    while True:
        own_ms = accesses.t_ms[left]
        counts = np.bincount(key[left], minlength=len(accesses.counts))
        carried_ms = _carried(np.maximum(own_ms, floor[key[left]]), counts)
        is_read = None if accesses.is_read is None else accesses.is_read[left]
        found = walk(Accesses(counts, carried_ms, is_read), old, has_old, policy)
        rows = np.where(found.source < m, found.source, m + left[found.source - m])
        if is_read is None:
            return replace(found, source=rows)
        stuck = _first_in_the_way(found, own_ms, carried_ms, counts)
        if not len(stuck):
            return replace(found, source=rows)
        left = np.delete(left, stuck)


def _descends(accesses: Accesses) -> bool:
    """Whether the time of any key goes backwards."""
    back = accesses.t_ms[1:] < accesses.t_ms[:-1]
    back[np.cumsum(accesses.counts)[:-1] - 1] = False
    return bool(back.any())


def _carried(times_ms: Times, counts: Rows) -> Times:
    """The running maximum within each key, by doubling steps."""
    place = np.arange(len(times_ms)) - np.repeat(np.cumsum(counts) - counts, counts)
    carried, step = times_ms, 1
    while step < int(counts.max()):
        reached = np.flatnonzero(place >= step)
        further = carried.copy()
        further[reached] = np.maximum(carried[reached], carried[reached - step])
        carried, step = further, 2 * step
    return carried


def _first_in_the_way(found: DividedLives, own_ms: Times, carried_ms: Times, counts: Rows) -> Rows:
    """For each key, the first read without effect that delayed its successor, as a position in the
    walk's records. The result before it is final, so this read certainly has no effect.
    """
    stops = np.cumsum(counts)
    has_next = np.ones(len(own_ms), dtype=bool)
    has_next[stops - 1] = False
    next_own_ms = np.append(own_ms[1:], NEVER_MS)
    stuck = (own_ms == carried_ms) & has_next & (next_own_ms < carried_ms)
    stuck &= found.is_trackless
    rows = np.flatnonzero(stuck)
    key = np.repeat(np.arange(len(counts)), counts)[rows]
    return rows[np.unique(key, return_index=True)[1]]

"""Rows that leave a table, as a sweep finds them: the rows, their times, and the first to end."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import Runs
from idlestate.retention.lives import Lives
from idlestate.retention.policy import Policy

_FIRST_LOOK_MS, _WIDER = 1_000, 16
"""How far beyond the next end the first deadline is searched at first (ms), and the factor per
retry.
"""
Ints = npt.NDArray[np.int64]


def portions(runs: Runs, positions: Ints, most_bytes: int, *, keys: bool = True) -> Iterator[Rows]:
    """The rows at positions as in `Runs.take`, in portions of about this many bytes.

    There is at least one portion.
    """
    cuts = np.zeros(0, dtype=np.int64)
    if sum(run.source.data.size for run in runs.runs) > most_bytes:
        sizes = np.empty(len(positions), dtype=np.int64)
        for run, (chosen, rows) in zip(runs.runs, runs.by_run(positions), strict=True):
            sizes[chosen] = run.stored.sizes(rows)
        portion = np.cumsum(sizes) // most_bytes
        cuts = np.flatnonzero(portion[1:] != portion[:-1]) + 1
    for some in np.split(positions, cuts):
        yield runs.take(some, keys=keys)


def lives_of(runs: Runs, positions: Ints) -> Lives:
    """The times of the rows at positions, which ascend in each run."""
    parts, order = [Rows.empty(runs.schema).lives], [np.zeros(0, dtype=np.int64)]
    for run, (chosen, rows) in zip(runs.runs, runs.by_run(positions), strict=True):
        if len(rows):
            parts.append(run.lives_at(rows))
            order.append(chosen)
    return Lives.joined(parts).take(np.argsort(np.concatenate(order)))


def first_end_ms(runs: Runs, policy: Policy, upto_ms: int) -> int | None:
    """The exact first deadline of an open life; None if none ends at or before `upto_ms`. It costs
    as much as a sweep up to shortly after that deadline.
    """
    begin_ms, width_ms = runs.next_end_ms(policy), _FIRST_LOOK_MS
    while begin_ms <= upto_ms:
        reach_ms = min(begin_ms + width_ms, upto_ms)
        due = runs.due(policy, reach_ms, np.zeros(0, dtype=np.int64))
        if len(due):
            return int(lives_of(runs, due).due_ms(policy).min())
        if reach_ms == upto_ms:
            break
        width_ms *= _WIDER
    return None

"""Rows that wait for their turn: with `in_order`, a row counts once the watermark has reached it.

Waiting rows are a table of the shard, in runs as open lives are. A row is written when it comes
and ends at its own time, so that the sweep at the watermark finds the rows to release by the due
index and removes them without a write. It replaces no other row: one key may have many. A row that
only looks has a time of reading.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.fields import Field
from idlestate.backends.runs.keys import Keys, are_equal, take_keys
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import Next, Runs
from idlestate.backends.shards.steps_by_key import Steps, grouped
from idlestate.retention.lives import Lives
from idlestate.retention.policy import Policy
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]
_RULE = Policy(ttl_ms=1)
"""A row is stored as written 1 ms before its time, and ends at its time."""
_DENSE, _SPACE = 1e9, 2.0
"""No key is looked for in this table, so many runs cost little: only space counts."""


def release(
    held: Runs, steps: Steps, upto_ms: int | None, batch_id: int, merge: MergePolicy
) -> tuple[Steps, Next]:
    """Take a batch's rows in; give those whose turn has come, and what still waits.

    Args:
        held: the rows that wait.
        steps: the rows of the batch.
        upto_ms: the watermark: rows at or before it are released (None: none is).
        batch_id, merge: as in `Runs.after`.
    """
    fresh = _rows(steps)
    is_due = np.zeros(len(fresh), dtype=bool)
    if upto_ms is not None:
        is_due = steps.t_ms <= upto_ms
    due = held.due(_RULE, upto_ms, np.zeros(0, dtype=np.int64))
    released = _steps([held.take(due), fresh.take(is_due)], steps)
    kept = fresh.take(~is_due)
    live = held.live - len(due) + len(kept)
    merge = replace(merge, dense=_DENSE, space=_SPACE)
    return released, held.after(kept, due, live, _RULE, upto_ms, batch_id, merge)


def waiting(held: Runs, hashes: Ints, keys: Keys) -> Ints:
    """The times (ms) of the waiting rows of one key, ascending."""
    at, rows = held.between(hashes, hashes)
    if not len(at):
        return at
    is_open = ~held.are_swept(at, rows)
    same = are_equal(rows.keys, take_keys(keys, np.zeros(len(at), dtype=np.int64)))
    times_ms: Ints = np.sort(rows.lives.written_at_ms[is_open & same] + 1)
    return times_ms


def _rows(steps: Steps) -> Rows:
    key = np.repeat(np.arange(len(steps)), steps.counts)
    never = read_ms = np.full(len(key), NEVER_MS)
    before_ms = steps.t_ms - 1
    if steps.is_read is not None:
        read_ms = np.where(steps.is_read, steps.t_ms, never)
    return Rows(
        steps.hashes[key],
        take_keys(steps.keys, key),
        Lives(before_ms, before_ms, read_ms, never),
        [*steps.order, *steps.carried],
    )


def _steps(parts: list[Rows], like: Steps) -> Steps:
    rows = Rows.gathered([part for part in parts if len(part)] or parts)
    reads = rows.lives.read_at_ms != NEVER_MS
    order: list[Field] = rows.payload[: len(like.order)]
    return grouped(
        rows.hashes,
        rows.keys,
        None,
        rows.lives.written_at_ms + 1,
        reads if reads.any() else None,
        order,
        rows.payload[len(like.order) :],
        sort=True,
    )

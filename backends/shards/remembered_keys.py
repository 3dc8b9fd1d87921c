"""Expired keys that are still remembered, so that returning keys can be counted.

They are rows of a separate table without key columns (only the hash counts). The time of the write
is the end of the key's last life; a column with the reason is omitted while all reasons are idle. A
row is forgotten by expiry, with `remember` as its ttl. A returning key leaves a tombstone.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.fields import Field
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import Next, Runs
from idlestate.backends.runs.table_schema import Column, TableSchema
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS, Ends, Reason, is_due

Ints = npt.NDArray[np.int64]
Reasons = npt.NDArray[np.int8]
SCHEMA = TableSchema(columns=(Column("reason", np.array([Reason.IDLE], dtype=np.int8)),))


def remembering(policy: Policy) -> Policy:
    """The policy of remembered keys: the first sweep after the `remember` span forgets a key."""
    if policy.remember_for_ms == FOREVER_MS:
        return Policy()
    return Policy(ttl_ms=policy.remember_for_ms + 1)


def ends_of(ended: Runs, hashes: Ints) -> Ints:
    """When keys with these ascending hashes ended; `NEVER_MS` for keys that are not remembered."""
    found_ms = np.full(len(hashes), NEVER_MS)
    if ended.live and len(hashes):
        at, rows = ended.look_up(hashes, [])
        found_ms[at >= 0] = rows.lives.written_at_ms
    return found_ms


def end_of(ended: Runs, hashes: Ints) -> tuple[int, Reason] | None:
    """When and why the key with this hash ended; None if it is not remembered."""
    _, rows = ended.with_schema(SCHEMA).look_up(hashes, [])
    if not len(rows):
        return None
    return int(rows.lives.written_at_ms[0]), Reason(int(np.asarray(rows.payload[0])[0]))


def remembered(
    ended: Runs,
    revived: Ints,
    hashes: Ints,
    ends: Ends,
    policy: Policy,
    sweep_at_ms: int | None,
    batch_id: int,
    merge: MergePolicy,
) -> Next:
    """The remembered keys after a batch.

    Args:
        ended: the remembered keys before it.
        revived: hashes of returning keys.
        hashes, ends: keys that ended in this batch.
        policy: the operator's policy.
        sweep_at_ms: no life can begin before this time any more (None: no limit).
        batch_id, merge: see `Runs.after`.
    """
    rule = remembering(policy)
    if not ended.runs:  # nothing to revive; ends forgotten at once leave no row
        revived = revived[:0]
        if sweep_at_ms is not None:
            stay = ~is_due(_lives(ends.deadline_ms).ends(rule).deadline_ms, sweep_at_ms)
            hashes, ends = hashes[stay], ends.take(stay)
        if not len(hashes):
            nothing = Rows.empty(ended.schema)
            return ended.after(nothing, nothing.hashes, 0, rule, sweep_at_ms, batch_id, merge)
    hashes, ended_at_ms, why = _last_ends(hashes, ends)
    changed = np.union1d(revived, hashes)
    at, _ = ended.look_up(changed, [])
    times_ms = np.full(len(changed), NEVER_MS)
    place = np.searchsorted(changed, hashes)
    times_ms[place] = ended_at_ms
    reasons = np.full(len(changed), Reason.IDLE, dtype=np.int8)
    reasons[place] = why
    lives = _lives(times_ms)
    is_kept = times_ms != NEVER_MS
    if sweep_at_ms is not None:
        is_kept &= ~is_due(lives.ends(rule).deadline_ms, sweep_at_ms)
    known = at[at >= 0]
    forgotten = ended.due(rule, sweep_at_ms, known)
    live = ended.live - len(known) - len(forgotten) + int(is_kept.sum())
    written = np.flatnonzero(is_kept | (at >= 0))
    times_ms = np.where(is_kept, times_ms, NEVER_MS)[written]
    others = (reasons != Reason.IDLE).any() or any(
        "reason" in run.stored.layout.schema.names for run in ended.runs
    )
    columns = SCHEMA.columns if others else ()
    ended = ended.with_schema(replace(ended.schema, columns=columns))
    payload: list[Field] = [reasons[written]] if others else []
    fresh = Rows(changed[written], [], _lives(times_ms), payload)
    closed = np.concatenate([known, forgotten])
    return ended.after(fresh, closed, live, rule, sweep_at_ms, batch_id, merge)


def _last_ends(hashes: Ints, ends: Ends) -> tuple[Ints, Ints, Reasons]:
    """Distinct hashes, ascending, each with its last end and the reason."""
    order = np.lexsort((ends.deadline_ms, hashes))
    hashes, ends = hashes[order], ends.take(order)
    is_last = np.ones(len(hashes), dtype=bool)
    is_last[:-1] = hashes[1:] != hashes[:-1]
    return hashes[is_last], ends.deadline_ms[is_last], ends.reason[is_last].astype(np.int8)


def _lives(times_ms: Ints) -> Lives:
    never = np.full(len(times_ms), NEVER_MS)
    return Lives(times_ms, times_ms, never, never)

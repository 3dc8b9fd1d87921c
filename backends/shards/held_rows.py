"""Waiting rows: with `in_order`, a row counts once the watermark has reached it.

Waiting rows form a table of the shard whose rows are packets: a batch's waiting rows are stored as
tasks packed them, and are merged and sorted once, on release. A packet ends at the time of its
first row, so the sweep at the watermark finds the packets with rows to release by the due index.
Rows of such a packet beyond the watermark are written again, in another packet.

To limit rewrites during long waits, a batch's rows are divided by time: rows within twice the last
advance of the watermark, then within four times, and so on. A row that waits for n batches is
rewritten at most log n times, and mostly once or never.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.fields import to_arrow
from idlestate.backends.runs.keys import Keys, are_equal, take_keys
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import Next, Runs
from idlestate.backends.shards.packet_codec import decode_packet, encode_packets
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]
_RULE = Policy(ttl_ms=1)
"""A packet is stored as written 1 ms before its first row, and ends at the time of that row."""
_MOST_DOUBLINGS = 10
_PACKETS_OF_BATCH, _PACKETS_OF_SEGMENT = 1 << 20, 16
_RATIO, _DENSE, _SPACE = 0.5, 1e9, 2.0
"""This table has no look-ups by key, so many runs cost little; only space matters."""
_NO_ROWS = np.zeros(0, dtype=np.int64)


def release(
    held: Runs,
    spec: TableSpec,
    steps: Steps,
    upto_ms: int | None,
    batch_id: int,
    merge: MergePolicy,
) -> tuple[Steps, Next]:
    """Add a batch's rows; return the released rows and the rows that still wait.

    Args:
        held: the waiting rows.
        spec: what the operator is.
        steps: the rows of the batch, joined or merged.
        upto_ms: the watermark: rows at or before it are released (None: none is).
        batch_id, merge: as in `Runs.after`.
    """
    turn_ms = NEVER_MS if upto_ms is None else upto_ms
    due = held.due(_RULE, upto_ms, _NO_ROWS)
    packets = held.take(due)
    older = _steps(packets, spec)
    released: list[Steps] = []
    left: list[Steps] = []
    for part in older:
        _divide(part, turn_ms, released, left)
    waits = [Steps.joined(left)] if left else []
    _divide(steps, turn_ms, released, waits)
    advance_ms = turn_ms - int(packets.lives.written_at_ms.min(initial=turn_ms))
    kept = _packets([each for rows in waits for each in _by_wait(rows, turn_ms, advance_ms)],
                    spec, batch_id)  # fmt: skip
    live = held.live - sum(len(each.t_ms) for each in older)
    live += sum(len(each.t_ms) for each in waits)
    merge = replace(
        merge, ratio=_RATIO, dense=_DENSE, space=_SPACE, floor_rows=0,
        segment_rows=_PACKETS_OF_SEGMENT,
    )  # fmt: skip
    taken = merge.runs_taken(
        len(kept), [len(run) for run in held.runs], len(held.open_lives()) - len(due) + len(kept)
    )
    after = Next(held, kept, due, live, _RULE, upto_ms, batch_id, merge, taken)
    return _by_key(Steps.joined(released)) if released else steps.slice(0, 0), after


def waiting(held: Runs, spec: TableSpec, hashes: Ints, keys: Keys) -> Ints:
    """The times (ms) of the waiting rows of one key, ascending."""
    found = [_NO_ROWS]
    for part in _steps(held.take(held.due(_RULE, FOREVER_MS - 1, _NO_ROWS)), spec):
        at = np.flatnonzero(part.hashes == hashes[0])
        same = are_equal(take_keys(part.keys, at), take_keys(keys, np.zeros_like(at)))
        is_of_key = np.zeros(len(part), dtype=bool)
        is_of_key[at[same]] = True
        found.append(part.t_ms[np.repeat(is_of_key, part.counts)])
    return np.sort(np.concatenate(found))


def _by_key(steps: Steps) -> Steps:
    """Joined steps, merged by key; steps of one packet are already in order."""
    is_in_order = bool((steps.hashes[1:] > steps.hashes[:-1]).all())
    return steps if is_in_order else steps.regrouped()


def _divide(steps: Steps, turn_ms: int, released: list[Steps], left: list[Steps]) -> None:
    """Add rows up to the watermark to `released`, and all others to `left`."""
    has_turn = steps.t_ms <= turn_ms
    if has_turn.any():
        released.append(steps.of_rows(has_turn))
    if not has_turn.all():
        left.append(steps.of_rows(~has_turn))


def _by_wait(steps: Steps, turn_ms: int, advance_ms: int) -> Iterator[Steps]:
    """Waiting rows, divided by how long they will wait.

    Args:
        steps: the rows.
        turn_ms: the watermark.
        advance_ms: how far this batch advanced it; 0 if unknown.
    """
    highest_ms = int(steps.t_ms.max())
    doublings = range(1, _MOST_DOUBLINGS + 1)
    bounds_ms = [turn_ms + (advance_ms << at) for at in doublings if advance_ms]
    bounds_ms = [each for each in bounds_ms if each < highest_ms]
    if not bounds_ms:
        yield steps
        return
    group = np.searchsorted(bounds_ms, steps.t_ms)
    for at in np.unique(group).tolist():
        yield steps.of_rows(group == at)


def _packets(parts: Sequence[Steps], spec: TableSpec, batch_id: int) -> Rows:
    """Packets as rows, with their numbers in place of hashes."""
    ids = [column.id for column in spec.carried]
    before_ms = np.array([int(part.t_ms.min()) - 1 for part in parts], dtype=np.int64)
    never = np.full(len(parts), NEVER_MS)
    return Rows(
        batch_id * _PACKETS_OF_BATCH + np.arange(len(parts)),
        [],
        Lives(before_ms, before_ms, never, never),
        [
            np.array([len(part.t_ms) for part in parts], dtype=np.int64),
            encode_packets(parts, pa.large_binary(), ids),
        ],
    )


def _steps(packets: Rows, spec: TableSpec) -> list[Steps]:
    column = to_arrow(packets.payload[-1])
    return [decode_packet(each, spec, is_kept=True) for each in column.to_pylist()]

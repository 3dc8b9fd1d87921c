"""One shard through one batch: state and packets in, next state and output cells out.

This is the way of the data between Spark's calls; it knows files and batches but not Spark, so
that streams, batch DataFrames and tests walk the same path.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from idlestate.backends import ended
from idlestate.backends.merge import MergePolicy, stagger
from idlestate.backends.packet import decode_packet
from idlestate.backends.runs import Runs
from idlestate.backends.spec import TableSpec
from idlestate.backends.steps import Steps
from idlestate.backends.table import Outcome, Table
from idlestate.pipeline.batch_log import BatchTimes
from idlestate.pipeline.layout import PolicyVersion
from idlestate.pipeline.run_files import RunFiles
from idlestate.pipeline.shard_state import Dropped, RowCounts, ShardState
from idlestate.retention.policy import FOREVER_MS, TimeDomain

# Some 0.5 MB: the JVM's collector treats arrays of a megabyte and more as a case of their own,
# and marks its whole heap again and again for them.
_ROWS_PER_CELL = 8_192
_CURRENT, _REMEMBERED = "run", "ended"


@dataclass(frozen=True, slots=True)
class Advanced:
    """What a batch made of a shard."""

    state: ShardState
    cells: list[bytes]
    """Change rows as Arrow IPC streams, each small enough for one Spark row."""
    next_deadline_ms: int
    """No life ends before this; it may be a little early."""


def advance(
    spec: TableSpec,
    state: ShardState,
    files: RunFiles | None,
    packets: Sequence[bytes],
    counts: RowCounts,
    times: BatchTimes,
    in_force: PolicyVersion,
) -> Advanced:
    """Take a batch into a shard.

    Args:
        spec: what the table keeps.
        state: the state after the last committed batch.
        files: where the table's files are; None keeps nothing (a batch DataFrame).
        packets: the steps of this shard, one packet per task.
        counts: rows counted by those tasks.
        times: batch id, watermark and batch time.
        in_force: the policy version for this batch.
    """
    policy = in_force.policy
    if files:
        current = files.read(_CURRENT, state.current, spec.schema)
        remembered = files.read(_REMEMBERED, state.remembered, ended.SCHEMA)
    else:
        current, remembered = Runs(spec.schema), Runs(ended.SCHEMA)
    table = Table(spec, current, remembered, state.seen)
    parts = [decode_packet(packet, spec) for packet in packets]
    steps = Steps.merged(parts) if parts else Steps.empty(spec)
    now_ms = times.watermark_ms
    if policy.time is TimeDomain.PROCESSING:
        now_ms = max(times.time_ms, state.time_ms)
        steps = steps.at(now_ms, spec.kind)
    merge = MergePolicy(stagger=stagger(state.shard))
    outcome = table.apply(steps, policy, now_ms, times.batch_id, merge)
    after = replace(
        state,
        tally=state.tally.plus(outcome.tally),
        rows=state.rows.plus(counts),
        time_ms=max(now_ms, state.time_ms),
        seen=outcome.seen,
    )
    next_deadline_ms = FOREVER_MS
    if files:
        after, runs = _write(after, outcome, files, times.batch_id)
        next_deadline_ms = runs.next_end_ms(policy)
    after = after.with_recent(times.batch_id, exact=policy.remember_for_ms == FOREVER_MS)
    return Advanced(after, list(_cells(outcome.changes)), next_deadline_ms)


def _write(
    state: ShardState, outcome: Outcome, files: RunFiles, batch_id: int
) -> tuple[ShardState, Runs]:
    """Write the runs of an outcome; the state that names them, and the open lives."""
    current, runs, old = files.write(_CURRENT, outcome.current, state.current)
    remembered, _, older = files.write(_REMEMBERED, outcome.remembered, state.remembered)
    dropped = [Dropped(ref.name, batch_id) for ref in (*old, *older)]
    state = replace(
        state, current=current, remembered=remembered, dropped=(*state.dropped, *dropped)
    )
    return state, runs


def _cells(changes: pa.Table) -> Iterator[bytes]:
    for batch in changes.to_batches(max_chunksize=_ROWS_PER_CELL):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield bytes(sink.getvalue())

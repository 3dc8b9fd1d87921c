"""One shard through one batch: state and packets in, next state and output cells out.

This is the way of the data between Spark's calls; it knows files and batches but not Spark, so
that streams, batch DataFrames and tests walk the same path.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from idlestate.backends.ended import Ended
from idlestate.backends.packet import decode_packet
from idlestate.backends.run import Run
from idlestate.backends.steps import Steps, TableSpec
from idlestate.backends.table import Table
from idlestate.pipeline.batch_log import BatchTimes
from idlestate.pipeline.layout import PolicyVersion
from idlestate.pipeline.run_files import RunFiles
from idlestate.pipeline.shard_state import Dropped, FileRef, RowCounts, ShardState
from idlestate.retention.policy import FOREVER_MS, TimeDomain

_ROWS_PER_CELL = 65_536


@dataclass(frozen=True, slots=True)
class Advanced:
    """What a batch made of a shard."""

    state: ShardState
    cells: list[bytes]
    """Change rows as Arrow IPC streams, each small enough for one Spark row."""
    next_deadline_ms: int


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
    run = files.read_run(state.run, spec) if files else Run.empty(spec)
    ended = files.read_ended(state.ended) if files else Ended.empty()
    table = Table(spec, run, ended, state.seen)
    parts = [decode_packet(packet, spec) for packet in packets]
    steps = Steps.merged(parts) if parts else Steps.empty(spec)
    now_ms = times.watermark_ms
    if policy.time is TimeDomain.PROCESSING:
        now_ms = max(times.time_ms, state.time_ms)
        steps = steps.at(now_ms, spec.aggregates)
    outcome = table.apply(steps, policy, now_ms, times.batch_id)
    after = replace(
        state,
        tally=state.tally.plus(outcome.tally),
        rows=state.rows.plus(counts),
        time_ms=max(now_ms, state.time_ms),
        seen=outcome.table.seen,
    )
    if files:
        after = _write(spec, after, table, outcome.table, files, times.batch_id, in_force.version)
    after = after.with_recent(times.batch_id, exact=policy.remember_for_ms == FOREVER_MS)
    return Advanced(after, list(_cells(outcome.changes)), outcome.table.next_deadline_ms(policy))


def _write(
    spec: TableSpec,
    state: ShardState,
    before: Table,
    after: Table,
    files: RunFiles,
    batch_id: int,
    policy_version: int,
) -> ShardState:
    run, ended, dropped = state.run, state.ended, list(state.dropped)
    if after.run is not before.run:
        dropped += _drop(run, batch_id)
        data = after.run.encode(spec, policy_version) if len(after.run) else None
        run = files.write("run", data, len(after.run), batch_id) if data else None
    if after.ended is not before.ended:
        dropped += _drop(ended, batch_id)
        data = after.ended.encode() if len(after.ended) else None
        ended = files.write("ended", data, len(after.ended), batch_id) if data else None
    return replace(state, run=run, ended=ended, dropped=tuple(dropped))


def _drop(ref: FileRef | None, batch_id: int) -> list[Dropped]:
    return [Dropped(ref.name, batch_id)] if ref else []


def _cells(changes: pa.Table) -> Iterator[bytes]:
    for batch in changes.to_batches(max_chunksize=_ROWS_PER_CELL):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield bytes(sink.getvalue())

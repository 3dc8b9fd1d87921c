"""One shard through one batch: record and packets in, next record and output cells out.

This is the data path between Spark's calls. It knows files and batches but not Spark, so streams,
batch DataFrames and tests use the same code.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from idlestate.backends.runs.compaction import MergePolicy, stagger
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.changelog_rows import of_batch
from idlestate.backends.shards.early_results import showing
from idlestate.backends.shards.emitted_rows import ROWS_PER_CELL
from idlestate.backends.shards.next_record import next_record, open_table, steps_of
from idlestate.backends.shards.operator_step import OperatorStep
from idlestate.backends.shards.operator_steps import LIFE_STEP
from idlestate.backends.shards.row_counts import RowCounts, RowsByInput
from idlestate.backends.shards.run_place import RunPlace
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import TimeDomain
from idlestate.retention.policy_version import PolicyVersion


@dataclass(frozen=True, slots=True)
class Advanced:
    """A shard after a batch."""

    record: ShardRecord
    cells: Iterable[bytes]
    """Change rows as Arrow IPC streams, each small enough for one Spark row; a join creates them as
    they are read.
    """
    failed: Sequence[Mapping[str, Any]]
    """What is shown of records on which a function failed."""


def advance(
    spec: TableSpec,
    record: ShardRecord,
    files: RunPlace | None,
    packets: Sequence[bytes],
    counts: RowsByInput,
    times: BatchTimes,
    in_force: PolicyVersion,
    operator_step: OperatorStep = LIFE_STEP,
    version: int | None = None,
) -> Advanced:
    """Apply a batch to a shard.

    Args:
        spec: what the table keeps.
        record: the shard after the last committed batch.
        files: the place of the table's runs; None stores nothing (a batch DataFrame).
        packets: the steps of this shard, one packet per task.
        counts: rows counted by those tasks.
        times: batch id, watermark and batch time.
        in_force: the policy version for this batch.
        operator_step: the operator's step, which processes the records.
        version: the batch's number in the tables; None: its id.

    Raises:
        FunctionError: the function raised an error, or yielded what is not valid.
    """
    policy = in_force.policy
    now_ms, at_ms = times.watermark_ms, None
    if policy.time is TimeDomain.PROCESSING:
        now_ms = at_ms = max(times.time_ms, record.time_ms)
    table = open_table(spec, record, files) if files else ShardTable.empty(spec)
    steps = steps_of(spec, packets, at_ms)
    merge = MergePolicy(stagger=stagger(record.shard))
    # A batch without data visits only some shards, so it shows no window for the first time.
    shows = showing(spec, record.shown_ms, record.newest_ms) if packets else None
    policies = in_force.of_sides
    number = times.batch_id if version is None else version
    outcome = operator_step.apply(table, steps, policies, now_ms, number, merge, shows)
    after = record.counted(counts, times.time_ms)
    if outcome.failed:
        failed = RowCounts(function_error=len(outcome.failed))
        after = after.counted({"": failed}, times.time_ms)
    if files:
        after = next_record(after, outcome, files, now_ms, times.time_ms)
        after = after.superseding(record, times.batch_id)
        after = after.with_recent(times.batch_id, policy)
    return Advanced(after, _cells(spec, outcome.changes, times.batch_id), outcome.failed)


def _cells(
    spec: TableSpec, changes: pa.Table | pa.RecordBatchReader, batch_id: int
) -> Iterator[bytes]:
    if isinstance(changes, pa.Table):
        changes = changes.to_reader(max_chunksize=ROWS_PER_CELL)
    for each in changes:
        batch = of_batch(each, spec, batch_id)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield bytes(sink.getvalue())

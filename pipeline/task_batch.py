"""The facts of a Spark task about its batch: place of runs, times, shards and policy in force.

The session's listener passes the checkpoint to tasks as a local property when the query starts.
Everything else is read from files in the checkpoint, which are the same for a retry or a replay.
"""

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark import TaskContext

from idlestate.backends.checkpoint.operator_layout import read_layout, spec_at
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.checkpoint.runs_folder import runs_of
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.record_copies import newest_copy
from idlestate.backends.files.spark_logs import NO_WATERMARK_MS, read_batch_times
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.input_watermarks import InputRecord, Inputs
from idlestate.backends.shards.own_accumulator import Classes
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.errors import RefusedError
from idlestate.pipeline.spark.local_properties import CHECKPOINT_PROPERTY
from idlestate.retention.policy_version import PolicyVersion


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """A batch as seen by one of its tasks."""

    times: BatchTimes
    table: TableSpec
    """The operator's spec, with the ids under which its aggregates are stored."""
    shards: list[int]
    in_force: PolicyVersion
    retain_batches: int
    runs: Folder | None
    """The folder of the operator's runs; None if no state is kept."""
    run_id: str = ""
    """The run of the query to which the batch belongs."""
    inputs: Inputs = field(default_factory=dict)
    """The operator's two inputs after the previous batch, by name, if requested."""


def open_task_batch(
    uid: str, classes: Classes, *, needs_inputs: bool = False, is_second: bool = False
) -> TaskBatch:
    """The batch of the calling task.

    Args:
        uid: the operator.
        classes: the classes of users' accumulators, from the driver.
        needs_inputs: whether to read `inputs`.
        is_second: whether the operator is behind another one (`second_step`).

    Raises:
        RefusedError: idlestate's listener is missing.
    """
    context: Any = TaskContext.get()
    root = context.getLocalProperty(CHECKPOINT_PROPERTY)
    if not root:
        raise RefusedError(
            f"operator {uid!r} does not know its checkpoint: start the query in the session "
            "(classic, not Spark Connect) in which retain() was called"
        )
    checkpoint = Folder(root)
    times = read_batch_times(checkpoint, int(context.getLocalProperty("streaming.sql.batchId")))
    if is_second:
        late_ms = NO_WATERMARK_MS
        if times.batch_id:
            late_ms = read_batch_times(checkpoint, times.batch_id - 1).watermark_ms
        times = replace(times, watermark_ms=late_ms)
    layout = read_layout(checkpoint, uid)
    in_force = PolicyJournal(checkpoint, uid).for_batch(times.batch_id)
    run_id = str(context.getLocalProperty("spark.jobGroup.id"))
    runs = runs_of(checkpoint, uid, layout)
    table = spec_at(checkpoint, uid, layout, times.batch_id, classes)
    retain_batches = layout.retain_batches
    batch = TaskBatch(times, table, layout.shards, in_force, retain_batches, runs, run_id)
    if not needs_inputs or not times.batch_id:
        return batch
    if layout.backend != "spark":
        return replace(batch, inputs=_inputs_in_sidecar(uid))
    # Packing tasks add the counts of their rows to the first shard.
    before = newest_copy(runs.below(str(layout.shards[0])), times.batch_id - 1)
    return replace(batch, inputs=before.inputs) if before is not None else batch


def _inputs_in_sidecar(uid: str) -> Inputs:
    """The inputs from a sidecar, which holds this version until it knows that this batch was
    committed.

    Raises:
        SidecarError: it does not answer, or accepts no more batches.
    """
    # Tasks of a query with its own state do not load network libraries.
    from idlestate.pipeline.sidecar_link import link_of_task  # noqa: PLC0415

    with closing(link_of_task(uid).connect()) as connection:
        found = connection.call("settle", {"uid": uid}).header["inputs"]
    return {name: InputRecord.from_json(facts) for name, facts in found.items()}

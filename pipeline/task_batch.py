"""The facts of a Spark task about its batch: place of runs, times, shards and policy in force.

The session's listener passes the checkpoint to tasks as a local property when the query starts.
Everything else is read from files in the checkpoint, which are the same for a retry or a replay.
"""

from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext

from idlestate.backends.files.batch_log import BatchTimes, read_batch_times
from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.own_accumulator import Classes
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.operator_layout import PolicyJournal, PolicyVersion, read_layout
from idlestate.pipeline.checkpoint.runs_folder import runs_of

CHECKPOINT_PROPERTY = "idlestate.checkpoint"


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


def open_task_batch(uid: str, classes: Classes) -> TaskBatch:
    """The batch of the calling task.

    Args:
        uid: the operator.
        classes: of users' accumulators, as the driver has them.

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
    layout = read_layout(checkpoint, uid)
    in_force = PolicyJournal(checkpoint, uid).for_batch(times.batch_id)
    run_id = str(context.getLocalProperty("spark.jobGroup.id"))
    runs = runs_of(checkpoint, uid, layout)
    table = layout.at(times.batch_id).spec(classes)
    return TaskBatch(times, table, layout.shards, in_force, layout.retain_batches, runs, run_id)

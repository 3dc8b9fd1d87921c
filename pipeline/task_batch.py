"""What a Spark task knows of its batch: place of runs, times, shards and policy in force.

The checkpoint reaches tasks as a local property that the session's listener sets when the query
starts. Everything else is read from files in it that no retry and no replay finds changed.
"""

from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext

from idlestate.backends.files.batch_log import BatchTimes, read_batch_times
from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.operator_layout import PolicyJournal, PolicyVersion, read_layout
from idlestate.pipeline.checkpoint.runs_folder import runs_of

CHECKPOINT_PROPERTY = "idlestate.checkpoint"


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """A batch as a task of it sees it."""

    times: BatchTimes
    table: TableSpec
    """What the operator is, with the ids under which its aggregates are kept."""
    shards: list[int]
    in_force: PolicyVersion
    retain_batches: int
    runs: Folder | None
    """Where the operator's runs are; None where nothing is kept."""
    run_id: str = ""
    """The start of the query that the batch belongs to."""


def open_task_batch(uid: str) -> TaskBatch:
    """The batch that the calling task works on.

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
    table = layout.at(times.batch_id).spec()
    return TaskBatch(times, table, layout.shards, in_force, layout.retain_batches, runs, run_id)

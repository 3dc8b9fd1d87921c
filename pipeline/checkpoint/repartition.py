"""Repartitions a checkpoint to another number of state partitions, while no query runs on it.

Spark rewrites its state stores in a separate batch without input. The values of the shards and
their files stay the same: the set of shards does not change, only the number of shards per
partition.
"""

from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from idlestate.backends.checkpoint.operator_layout import (
    OperatorLayout,
    operators,
    read_layout,
    refuse_outside,
    write_layout,
)
from idlestate.backends.checkpoint.shard_partitions import even_partitions
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import newest_batch, pinned_partitions
from idlestate.config.plurals import counted
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.spark_metadata import plain_path, put_paths_right
from idlestate.pipeline.spark.session_settings import check_session
from idlestate.pipeline.spark.spark_version import REPARTITION_SINCE, check_since, private_part
from idlestate.pipeline.spark.task_errors import spark_says


def repartition(spark: SparkSession, checkpoint: str, partitions: int) -> int:
    """Rewrite the state of a stopped query for this number of partitions.

    If it is interrupted, repeat it with the same number; until then, the query does not start.

    Args:
        spark: a session set up for idlestate (`configure`).
        checkpoint: the query's checkpoint folder.
        partitions: a divisor of the number of shards.

    Returns:
        The batch with the rewritten state.

    Raises:
        RefusedError: the shards cannot be divided evenly, a batch has not ended, or the session or
            the checkpoint does not fit.
    """
    check_session(spark)
    check_since(
        REPARTITION_SINCE, "a repartition", "start with a new checkpoint and more state_partitions"
    )
    folder = Folder(checkpoint)
    layouts = _layouts(folder)
    for uid, layout in layouts.items():
        allowed = even_partitions(layout.shards)
        if partitions not in allowed:
            raise RefusedError(
                f"operator {uid!r} has {counted(len(layout.shards), 'shard')}, a fixed number that "
                f"{partitions} partitions do not divide evenly; choose one of "
                f"{', '.join(map(str, allowed))}"
            )
    committed, planned = newest_batch(folder, "commits"), newest_batch(folder, "offsets")
    if committed is None or planned is None:
        raise RefusedError(
            f"checkpoint {folder} has no committed batch yet; start the query with another number"
        )
    now = pinned_partitions(folder)
    if now == partitions and committed == planned:
        _note(folder, layouts, partitions)
        return committed
    if now != partitions and committed != planned:
        raise RefusedError(
            f"batch {planned} of checkpoint {folder} has not ended: start the query once more "
            "with the trigger availableNow, let it finish, then call this again"
        )
    put_paths_right(folder)
    # If a start was killed after it wrote a definition, no batch has used that definition. This
    # batch does not change state, so it must not count as the first one that does.
    layouts = {uid: layout.as_of(committed) for uid, layout in layouts.items()}
    for uid, layout in layouts.items():
        write_layout(folder, uid, layout)
    try:
        with plain_path(folder) as path:
            with private_part("SparkSession._streamingCheckpointManager"):  # not public yet
                manager = spark._streamingCheckpointManager  # noqa: SLF001
            manager.repartition(path, partitions)
    except (PySparkException, Py4JJavaError) as error:
        raise RefusedError(
            f"Spark could not repartition checkpoint {folder} to "
            f"{counted(partitions, 'partition')}: {spark_says(str(error))}; call this again with "
            "the same number"
        ) from error
    put_paths_right(folder)
    _note(folder, layouts, partitions)
    done = newest_batch(folder, "commits")
    return committed if done is None else done


def _layouts(folder: Folder) -> dict[str, OperatorLayout]:
    uids = operators(folder)
    for uid in uids:
        refuse_outside(folder, uid)
    return {uid: read_layout(folder, uid) for uid in uids}


def _note(folder: Folder, layouts: dict[str, OperatorLayout], partitions: int) -> None:
    for uid, layout in layouts.items():
        write_layout(folder, uid, replace(layout, state_partitions=partitions))

"""Rolls a checkpoint back to an earlier batch, while no query runs on it.

The entries of later batches are removed from Spark's logs, newest first, so that the checkpoint is
valid after every step. The plan of the first undone batch stays: that batch runs again with the
same input, times and policy. Later input is read again too, but may be divided into batches
differently: when the query starts, entries of undone batches are removed from the logs of its file
sources (`source_log`) and of a file sink (`spark_file_sink`).
"""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from idlestate.backends.checkpoint.operator_layout import operators
from idlestate.backends.checkpoint.rollback_count import count_rollback
from idlestate.backends.checkpoint.source_log import files_read_after
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import forget_entry, newest_batch, partitions_at
from idlestate.config.plurals import counted
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.state_files import damages, retained_batches, state_files
from idlestate.pipeline.spark.hadoop import Hadoop


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The undone batches of a rollback: the first, the last, and the files that they had read."""

    first: int
    last: int
    read_again: tuple[str, ...]


def roll_back(spark: SparkSession, checkpoint: str, to: int) -> RolledBack:
    """Make batch `to` the newest committed one again.

    Args:
        spark: a session set up for idlestate (`configure`).
        checkpoint: the query's checkpoint folder.
        to: a committed batch that is still retained.

    Raises:
        RefusedError: it is not retained, is damaged, or has other state partitions.
    """
    folder = Folder(checkpoint)
    uids = operators(folder)
    for uid in uids:
        _refuse_unfit(spark, folder, uid, to)
    newest = newest_batch(folder, "offsets")
    if newest is None or newest == to:
        raise RefusedError(f"batch {to} is the newest of checkpoint {folder}: nothing to undo")
    if partitions_at(folder, newest) != partitions_at(folder, to):
        raise RefusedError(
            f"batch {to} of checkpoint {folder} has its state on "
            f"{counted(partitions_at(folder, to), 'partition')}, the newest on "
            f"{partitions_at(folder, newest)}: a rollback cannot go back "
            "past a repartition; roll back to a batch after it"
        )
    undone = RolledBack(to + 1, newest, tuple(files_read_after(folder, to)))
    _refuse_gone(spark, undone.read_again, to)
    count_rollback(folder)
    for batch in range(newest, to, -1):
        forget_entry(folder, "commits", batch)
        if batch > to + 1:
            forget_entry(folder, "offsets", batch)
    return undone


def _refuse_unfit(spark: SparkSession, folder: Folder, uid: str, to: int) -> None:
    batches = retained_batches(folder, uid)
    if to not in batches:
        raise RefusedError(
            f"checkpoint {folder} does not retain batch {to} of operator {uid!r}; it has "
            f"{', '.join(map(str, batches))}"
        )
    files = state_files(spark, folder.url, uid)
    damaged = damages(files.of_batch(to))
    if damaged:
        good = files.newest_without(damages(list(files.named)))
        way = f"batch {good} does not" if good is not None else "so does every retained batch"
        raise RefusedError(
            f"{damaged[0].file.path} {damaged[0].what}, and batch {to} needs it; {way}"
        )


def _refuse_gone(spark: SparkSession, files: tuple[str, ...], to: int) -> None:
    """Refuse if input files are missing: the next start would silently skip them."""
    hadoop = Hadoop(spark)
    for url in files:
        if not hadoop.exists(url):
            raise RefusedError(
                f"batch {to} cannot be rolled back to: input file {url} would be read again and is "
                "gone; restore it, or roll back to a batch after the one that read it"
            )

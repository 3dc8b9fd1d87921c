"""The shards of an operator after a committed batch, read without Spark."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from idlestate.backends.checkpoint.operator_layout import OperatorLayout
from idlestate.backends.checkpoint.runs_folder import runs_of
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.record_copies import newest_copy
from idlestate.backends.shards.shard_record import RecordError, ShardRecord
from idlestate.errors import DamagedStateError, RefusedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class UnrecordedError(RefusedError):
    """Copies of the shards' records are missing: only Spark can read this state."""


def recorded_shards(
    checkpoint: Folder, uid: str, layout: OperatorLayout, batch_id: int
) -> list[ShardRecord] | None:
    """The record of each shard after a committed batch, in the order of the layout.

    Args:
        checkpoint: the query's checkpoint.
        uid, layout: the operator, whose state is in the checkpoint.
        batch_id: a committed batch whose files were not removed by later ones.

    Returns:
        None if copies are missing: another version of idlestate wrote the checkpoint, or they were
        removed. The next batch with data writes them again, and `read_shards` reads the state store
        itself.

    Raises:
        DamagedStateError: another version of idlestate wrote the records.
        StoreError: the place of the runs cannot be reached.
    """
    runs = runs_of(checkpoint, uid, layout)
    if not any(name.isdigit() for name in runs.names("")):
        return []  # so far no batch had a row
    records = []
    for shard in layout.shards:
        try:
            found = newest_copy(runs.below(str(shard)), batch_id)
        except RecordError as error:
            raise DamagedStateError(f"checkpoint {checkpoint}: {error}") from error
        if found is None:
            return None
        records.append(found)
    return records


def read_records(
    checkpoint: Folder,
    uid: str,
    layout: OperatorLayout,
    batch_id: int,
    spark: "SparkSession | None",
) -> Sequence[ShardRecord]:
    """The shards after a committed batch, read with Spark only if their copies are missing.

    Raises:
        UnrecordedError: they are missing, and there is no session.
    """
    records = recorded_shards(checkpoint, uid, layout, batch_id)
    if records is not None:
        return records
    if spark is None:
        raise UnrecordedError(
            f"checkpoint {checkpoint}: operator {uid!r} has no whole copy of its newest "
            "records: another version of idlestate wrote it, or files are damaged; let the query "
            "run one batch, or pass spark=... to read the state store"
        )
    from idlestate.pipeline.checkpoint.state_store_shards import (  # noqa: PLC0415 - Spark
        read_shards,
    )

    return read_shards(spark, checkpoint.url, uid, batch_id)

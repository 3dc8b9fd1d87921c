"""The shards of an operator after a committed batch, read from Spark's state store."""

from pyspark.sql import SparkSession

from idlestate.backends.checkpoint.operator_layout import layout_path, refuse_outside
from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.shard_record import RecordError, ShardRecord
from idlestate.errors import DamagedStateError
from idlestate.pipeline.checkpoint.spark_metadata import (
    operators_with_state,
    plain_path,
    put_paths_right,
)
from idlestate.pipeline.spark.session_settings import check_session
from idlestate.pipeline.spark.state_variable import STATE_NAME


def read_shards(spark: SparkSession, checkpoint: str, uid: str, batch_id: int) -> list[ShardRecord]:
    """The records of an operator's shards after a batch, from Spark's state store.

    Raises:
        RefusedError: the session cannot read state, or the state is in a sidecar.
    """
    check_session(spark)
    folder = Folder(checkpoint)
    if folder.exists(layout_path(uid)):
        refuse_outside(folder, uid)
    put_paths_right(folder)
    with plain_path(folder) as path:
        for operator in operators_with_state(folder, STATE_NAME):
            rows = (
                spark.read.format("statestore")
                .option("path", path)
                .option("operatorId", operator)
                .option("stateVarName", STATE_NAME)
                .option("batchId", batch_id)
                .load()
                .select("value.value")
                .collect()
            )
            try:
                states = [ShardRecord.decode(bytes(row[0])) for row in rows]
            except RecordError as error:
                raise DamagedStateError(f"checkpoint {checkpoint}: {error}") from error
            if states and states[0].uid == uid:
                return states
    return []  # so far no batch had a row

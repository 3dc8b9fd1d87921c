"""Reads state: the open lives after a batch, as a DataFrame."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from idlestate.backends.checkpoint.operator_layout import (
    operator_of,
    read_layout,
    spec_at,
)
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.checkpoint.runs_folder import runs_of
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.files.spark_logs import committed_batch
from idlestate.backends.shards.next_record import open_table
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.state_rows import rows_in_state
from idlestate.errors import IdlestateError, RefusedError
from idlestate.pipeline.checkpoint.state_store_shards import read_shards
from idlestate.pipeline.read_sidecar_state import lives_in_sidecar
from idlestate.pipeline.sidecar_attachment import link_of
from idlestate.pipeline.spark.spark_types import spark_schema
from idlestate.pipeline.spark.task_errors import marked
from idlestate.sidecar.protocol.connection import Address


def read_state(
    spark: SparkSession,
    checkpoint: str,
    uid: str | None = None,
    batch_id: int | None = None,
    sidecar: str | Address | None = None,
) -> DataFrame:
    """Return the lives that are open after a committed batch.

    Args:
        spark: a session set up for idlestate (`configure`).
        checkpoint: the query's checkpoint folder.
        uid: the operator; None if the query has only one.
        batch_id: a batch that Spark still retains; None for the newest committed one.
        sidecar: the address of the operator's sidecar, if it changed since the last start.

    Returns:
        Key columns, aggregates, `created_at`, `written_at`, `read_at`, `armed_at`,
        `last_access`, `cleanup_at`, `deadline`, `reason`. For a `join`, the rows that may still
        match: key columns, `join_side` (`left` or `right`), the columns of both inputs,
        `created_at` and `deadline`.

    Raises:
        RefusedError: no such checkpoint, operator or batch.
        UnavailableError: the sidecar does not answer, or is busy.
        DamagedStateError: (from tasks, as text) a file that the state names is lost or damaged.
    """
    folder = Folder(checkpoint)
    uid = operator_of(folder, uid)
    layout = read_layout(folder, uid)
    address = Address(sidecar) if isinstance(sidecar, str) else sidecar
    link = link_of(folder, uid, address)
    if link is not None:
        if batch_id is not None:
            raise RefusedError(
                f"operator {uid!r}: its sidecar has only the newest batch; leave out batch_id"
            )
        return lives_in_sidecar(spark, link)
    batch_id = committed_batch(folder, batch_id)
    states = read_shards(spark, checkpoint, uid, batch_id)
    policies = PolicyJournal(folder, uid).for_batch(batch_id).of_sides
    spec = spec_at(folder, uid, layout, batch_id)
    schema = next(rows_in_state(ShardTable.empty(spec), policies)).schema
    rows = [(state.encode(),) for state in states]
    values = spark.createDataFrame(rows, "value binary").repartition(max(1, len(rows)))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value in batch.column(0).to_pylist():
                state = ShardRecord.decode(value)
                try:
                    files = RunFiles(runs_of(Folder(checkpoint), uid, layout), state.shard)
                    for lives in rows_in_state(open_table(spec, state, files), policies):
                        yield from lives.to_batches(max_chunksize=65_536)
                except IdlestateError as error:
                    raise marked(error) from error

    return values.mapInArrow(run, spark_schema(schema))

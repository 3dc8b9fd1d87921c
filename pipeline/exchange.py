"""The stateful step of a sidecar's operator: a task hands its shards' packets over and brings
change rows home.

A task is one partition of an explicit repartition by shard; what it knows of its batch is what the
stateful step in Spark's own store knows. Calls wait for a sidecar that is away; one that has lost
the exchange meanwhile gets it again from the beginning.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from idlestate.backends.sidecar.connection import Connection
from idlestate.backends.sidecar.errors import GoneError, SidecarError
from idlestate.backends.sidecar.exchanges import CHUNK_BYTES
from idlestate.pipeline.errors import IdlestateError, RefusedError, marked
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.shard_report import REPORT_FIELDS, ShardReport
from idlestate.pipeline.shard_state import RowCounts
from idlestate.pipeline.shards import spark_partition
from idlestate.pipeline.sidecar_link import SIDECARS_PROPERTY, SidecarLink
from idlestate.pipeline.task import TaskBatch, open_task_batch
from idlestate.pipeline.types import spark_schema
from idlestate.pipeline.worker import settle

_TRIES = 5
EXCHANGED = pa.schema(
    [
        *((name, pa.int64()) for name in REPORT_FIELDS),
        ("cell", pa.binary()),
        ("rejected", pa.string()),
    ]
)
EXCHANGED_TYPE: StructType = spark_schema(EXCHANGED)
"""As the stateful step's rows: a report per shard, then cells of change rows."""


def exchanger(
    spec: OperatorSpec,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        cells = [row for batch in batches for row in batch.to_pylist()]
        if not cells:
            return  # the query planned this batch without a row of ours
        try:
            yield from _exchange(spec, cells)
        except (IdlestateError, SidecarError) as error:
            raise marked(error) from error

    return run


def partition_of(shards: Sequence[int], shard: int, partitions: int) -> tuple[int, int, list[int]]:
    """Which of the partitions that have shards the one of a shard is, how many there are, and the
    positions of its shards.
    """
    places = [spark_partition(number, partitions) for number in shards]
    used = sorted(set(places))
    mine = spark_partition(shard, partitions)
    positions = [at for at, place in enumerate(places) if place == mine]
    return used.index(mine), len(used), positions


def _exchange(spec: OperatorSpec, cells: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    batch = open_task_batch(spec.uid)
    connection = _link(spec.uid).connect()
    try:
        for left in reversed(range(_TRIES)):
            try:
                yield from _Exchange(spec, batch, connection, cells).run()
                return
            except GoneError:
                if not left:
                    raise
    finally:
        connection.close()


def _link(uid: str) -> SidecarLink:
    context: Any = TaskContext.get()
    links = json.loads(context.getLocalProperty(SIDECARS_PROPERTY) or "{}")
    if uid not in links:
        raise RefusedError(
            f"operator {uid!r} does not know its sidecar: start the query in the session (classic, "
            "not Spark Connect) in which retain() was called"
        )
    return SidecarLink.of_text(links[uid])


class _Exchange:
    """One try. Rows are handed on only when the sidecar has answered in full."""

    def __init__(
        self,
        spec: OperatorSpec,
        batch: TaskBatch,
        connection: Connection,
        cells: list[dict[str, Any]],
    ) -> None:
        self._spec = spec
        self._batch = batch
        self._connection = connection
        self._cells = cells

    def run(self) -> Iterator[pa.RecordBatch]:
        handle = self._connection.call("open", self._opening()).header["handle"]
        counts = self._send(handle)
        answer = self._connection.call("finish", {"handle": handle, "counts": counts})
        cells = list(answer.parts)
        for at in range(len(cells), answer.header["chunks"]):
            cells += self._connection.call("fetch", {"handle": handle, "at": at}).parts
        self._connection.call("close", {"handle": handle})
        yield self._reports(answer.header["figures"])
        rejected = [cell["rejected"] for cell in self._cells if cell["rejected"]]
        yield _rows(cell=cells)
        if rejected:
            yield _rows(rejected=rejected)

    def _opening(self) -> dict[str, Any]:
        context: Any = TaskContext.get()
        batch = self._batch
        at, partitions, positions = partition_of(
            batch.shards, self._cells[0]["shard"], self._spec.partitions
        )
        attempt = {
            "query_id": _link(self._spec.uid).query_id,
            "run_id": batch.run_id,
            "execution_id": str(context.getLocalProperty("spark.sql.execution.id")),
            "batch_id": batch.times.batch_id,
            # Higher for whatever was started later, of the stage or of the task.
            "attempt": context.taskAttemptId(),
            "partition": at,
            "partitions": partitions,
            "shards": positions,
            "time_ms": batch.times.time_ms,
            "watermark_ms": batch.times.watermark_ms,
            "policy": batch.in_force.policy.to_json(),
        }
        return {"uid": self._spec.uid, "attempt": attempt}

    def _send(self, handle: str) -> dict[int, dict[str, int]]:
        """Send the packets; what their rows were counted as, by shard."""
        counts: dict[int, RowCounts] = {}
        for number, cell in enumerate(self._cells):
            shard, packet = self._batch.shards.index(cell["shard"]), cell["packet"]
            for place, begin in enumerate(range(0, len(packet), CHUNK_BYTES)):
                header = {"handle": handle, "at": [shard, number, place]}
                self._connection.call("chunk", header, packet[begin : begin + CHUNK_BYTES])
            if cell["counts"]:
                more = RowCounts(**json.loads(cell["counts"]))
                counts[shard] = counts.get(shard, RowCounts()).plus(more)
        return {shard: each.as_dict() for shard, each in counts.items()}

    def _reports(self, figures: dict[str, dict[str, int]]) -> pa.RecordBatch:
        batch_id, version = self._batch.times.batch_id, self._batch.in_force.version
        reports = [report_of(int(at), each, batch_id, version) for at, each in figures.items()]
        columns = zip(*(astuple(report) for report in reports), strict=True)
        named = dict(zip(REPORT_FIELDS, columns, strict=True))
        return _rows(**named)


def report_of(shard: int, figures: dict[str, int], batch_id: int, version: int) -> ShardReport:
    """A shard's figures as the sidecar tells them, as the report that the driver takes."""
    counts = RowCounts().as_dict()
    return ShardReport(**(counts | figures), shard=shard, batch_id=batch_id, policy_version=version)


def _rows(**columns: Sequence[Any]) -> pa.RecordBatch:
    """Rows of `EXCHANGED`, null where nothing is said."""
    n = len(next(iter(columns.values())))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(n, field.type)
            for field in EXCHANGED
        ],
        schema=EXCHANGED,
    )

"""The stateful step of a sidecar's operator: a task sends its shards' packets and receives change
rows.

A task is one partition of an explicit repartition by shard. It has the same information about its
batch as the stateful step in Spark's own store. Calls wait for an unavailable sidecar; if the
sidecar has lost the exchange in the meantime, the task starts it again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from idlestate.backends.checkpoint.shard_partitions import spark_partition
from idlestate.backends.shards.late_and_rejected_rows import failed_as_json
from idlestate.backends.shards.row_counts import RowsByInput, of_texts
from idlestate.backends.shards.shard_report import reported
from idlestate.errors import IdlestateError
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.sidecar_link import link_of_task
from idlestate.pipeline.spark.python_worker import settle
from idlestate.pipeline.spark.task_errors import marked
from idlestate.pipeline.task_batch import TaskBatch, open_task_batch
from idlestate.sidecar.client.step_on_sidecar_state import StepOnSidecarState, Stepped
from idlestate.sidecar.protocol.errors import AwayError, GoneError
from idlestate.sidecar.protocol.routes import Routes
from idlestate.sidecar.protocol.sender import Sender

_TRIES = 5
EXCHANGED = pa.schema([("report", pa.string()), ("cell", pa.binary()), ("rejected", pa.string())])
"""The columns of the stateful step's output: a report per shard, then cells of change rows."""


def exchanger(
    spec: OperatorSpec,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        cells = [row for batch in batches for row in batch.to_pylist()]
        if not cells:
            return  # the query planned this batch without rows for this operator
        try:
            yield from _exchange(spec, cells)
        except IdlestateError as error:
            raise marked(error, spec.uid) from error

    return run


def partition_of(shards: Sequence[int], shard: int, partitions: int) -> tuple[int, int, list[int]]:
    """The rank of a shard's partition among partitions with shards, the number of these, and the
    positions of the partition's shards.
    """
    places = [spark_partition(number, partitions) for number in shards]
    used = sorted(set(places))
    mine = spark_partition(shard, partitions)
    positions = [at for at, place in enumerate(places) if place == mine]
    return used.index(mine), len(used), positions


def _exchange(spec: OperatorSpec, cells: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    batch = open_task_batch(spec.uid, spec.table.classes)
    routes = Routes(link_of_task(spec.uid).address)
    try:
        for left in reversed(range(_TRIES)):
            try:
                yield from _Exchange(spec, batch, routes, cells).run()
                return
            except GoneError:
                if not left:
                    raise
            except AwayError:
                if not left or not routes.have_moved():
                    raise
    finally:
        routes.close()


class _Exchange:
    """One try. Rows are passed on only after the sidecar has answered completely."""

    def __init__(
        self,
        spec: OperatorSpec,
        batch: TaskBatch,
        routes: Routes,
        cells: list[dict[str, Any]],
    ) -> None:
        self._spec = spec
        self._batch = batch
        self._routes = routes
        self._cells = cells

    def run(self) -> Iterator[pa.RecordBatch]:
        main = self._routes.main
        opened = main.call("open", self._opening()).header
        self._routes.take(opened["places"])
        handle = opened["handle"]
        if self._spec.table.has_own_step:
            cells, failed, figures = self._step_here(opened)
        else:
            cells, failed, figures = self._step_there(handle)
        main.call("close", {"handle": handle})
        yield self._reports(figures)
        rejected = [cell["rejected"] for cell in self._cells if cell["rejected"]]
        rejected += failed_as_json(failed, self._batch.times.batch_id)
        for cell in cells:  # not all at once: one array cannot hold 2 GB
            yield _rows(cell=[cell])
        if rejected:
            yield _rows(rejected=rejected)

    def _step_there(self, handle: str) -> Stepped:
        """A step that the sidecar executes."""
        counts, ranges = self._send(handle)
        finish = {"handle": handle, "counts": counts, "ranges": ranges}
        answer = self._routes.main.call("finish", finish)
        cells: list[bytes] = []
        for at, chunks in enumerate(answer.header["chunks"]):
            for chunk in range(chunks):
                fetch = {"handle": handle, "at": chunk}
                cells += self._routes.to_range(at).call("fetch", fetch).parts
            if chunks:
                self._routes.to_range(at).call("close", {"handle": handle})
        return cells, [], answer.header["figures"]

    def _step_here(self, opened: Mapping[str, Any]) -> Stepped:
        """A step that this task executes, because only the task has the operator's own step."""
        batch, packets = self._batch, defaultdict[int, list[bytes]](list)
        for cell in self._cells:
            packets[batch.shards.index(cell["shard"])].append(cell["packet"])
        spec, shards = self._spec, len(batch.shards)
        step = StepOnSidecarState(self._routes, spec.uid, spec.table, spec.operator_step, shards)
        return step.run(opened, packets, self._counts(), batch.times, batch.in_force)

    def _counts(self) -> dict[int, RowsByInput]:
        """The counts of the packing tasks by shard."""
        texts: dict[int, list[str]] = {}
        for cell in self._cells:
            if cell["counts"]:
                shard = self._batch.shards.index(cell["shard"])
                texts.setdefault(shard, []).append(cell["counts"])
        return {shard: of_texts(each) for shard, each in texts.items()}

    def _opening(self) -> dict[str, Any]:
        context: Any = TaskContext.get()
        batch = self._batch
        at, partitions, positions = partition_of(
            batch.shards, self._cells[0]["shard"], self._spec.partitions
        )
        attempt = {
            "query_id": link_of_task(self._spec.uid).query_id,
            "run_id": batch.run_id,
            "execution_id": str(context.getLocalProperty("spark.sql.execution.id")),
            "batch_id": batch.times.batch_id,
            # Higher for a later attempt of the stage or of the task.
            "attempt": context.taskAttemptId(),
            "partition": at,
            "partitions": partitions,
            "shards": positions,
            "time_ms": batch.times.time_ms,
            "watermark_ms": batch.times.watermark_ms,
            "policy": batch.in_force.policy.to_json(),
            "right": batch.in_force.right and batch.in_force.right.to_json(),
            "policy_version": batch.in_force.version,
        }
        return {"uid": self._spec.uid, "attempt": attempt}

    def _send(self, handle: str) -> tuple[dict[int, dict[str, dict[str, int]]], list[int]]:
        """Send the packets; return the counts of their rows by shard and input, and the ranges that
        have packets.
        """
        sender = Sender(self._routes, handle, len(self._batch.shards))
        for number, cell in enumerate(self._cells):
            sender.send(self._batch.shards.index(cell["shard"]), number, cell["packet"])
        counts = {
            shard: {name: each.as_dict() for name, each in by_input.items()}
            for shard, by_input in self._counts().items()
        }
        return counts, sorted(sender.ranges)

    def _reports(self, figures: dict[str, dict[str, Any]]) -> pa.RecordBatch:
        times, version = self._batch.times, self._batch.in_force.version
        reports = [reported(each, version, times) for each in figures.values()]
        return _rows(report=[each.to_json() for each in reports])


def _rows(**columns: Sequence[Any]) -> pa.RecordBatch:
    """Rows of `EXCHANGED`; omitted columns are null."""
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

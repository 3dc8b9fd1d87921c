"""An operator with two inputs, batch by batch in this process, with the times of its batches given.

Rows take the way of a query. What Spark does is done here: marks, the shuffle, the watermark.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.row_counts import of_texts
from idlestate.backends.shards.shard_batch import advance
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.pipeline.changelog_unpacker import unpacked_cells
from idlestate.pipeline.marked_table import marked_table
from idlestate.pipeline.operator_checks import Marking
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.pack import HIGHEST, pack
from idlestate.pipeline.retain_harness import _RunsInMemory
from idlestate.pipeline.task_batch import TaskBatch
from idlestate.retention.policy_version import PolicyVersion

Row = dict[str, Any]


class TwoInputRun:
    """A query on two inputs.

    Args:
        inputs: the operator as the rows of each input are marked and packed.
        schemas: of their rows, by the names of the inputs.
        shards: how many shards it has.
    """

    def __init__(
        self,
        inputs: Sequence[tuple[OperatorSpec, Marking]],
        schemas: Mapping[str, pa.Schema],
        shards: int = 2,
    ) -> None:
        self.inputs, self.schemas = inputs, schemas
        self.spec = inputs[0][0]
        self.records = [ShardRecord(self.spec.uid, shard) for shard in range(shards)]
        self.runs = [_KeptRuns() for _ in range(shards)]
        self.batch_id = 0
        self.watermark_ms = 0
        self.reached_ms: dict[str, int] = {}

    def batch(self, time_ms: int, **rows: Sequence[Row]) -> list[Row]:
        """The output of a batch of this time; an input without rows has no task."""
        times = BatchTimes(self.batch_id, self.watermark_ms, time_ms)
        in_force = PolicyVersion(1, 0, self.spec.policy)
        task = TaskBatch(
            times, self.spec.table, list(range(len(self.records))), in_force, 9, None,
            inputs=self.records[0].inputs,
        )  # fmt: skip
        cells = []
        for spec, marking in self.inputs:
            if rows.get(spec.input_name):
                table = pa.Table.from_pylist(rows[spec.input_name], self.schemas[spec.input_name])
                marked = marked_table(table, spec, marking)
                found = next(pack(iter(marked.to_batches()), spec, task))
                cells += found.to_pylist()
                highest = found.column(HIGHEST).cast(pa.int64())[0].as_py()
                self._reach(spec, highest and highest // 1000)
        output = []
        for shard, record in enumerate(self.records):
            mine = [cell for cell in cells if cell["shard"] == shard]
            texts = [cell["counts"] for cell in mine if cell["counts"] is not None]
            packets = [cell["packet"] for cell in mine]
            advanced = advance(
                task.table, record, self.runs[shard], packets, of_texts(texts), times, in_force
            )
            self.records[shard] = advanced.record
            rejected = [cell["rejected"] for cell in mine if cell["rejected"] is not None]
            output += unpacked_cells(advanced.cells, rejected, self.spec)
        self.batch_id += 1
        self._advance_time()
        return [row for part in output for row in part.to_pylist()]

    def _reach(self, spec: OperatorSpec, highest_ms: int | None) -> None:
        if highest_ms is None:
            return
        name = "both" if spec.may_be_idle else spec.input_name
        delay_ms = 0 if spec.may_be_idle else spec.delay_ms + 1
        self.reached_ms[name] = max(self.reached_ms.get(name, 0), highest_ms - delay_ms)

    def _advance_time(self) -> None:
        needed = ["both"] if self.spec.may_be_idle else [of.input_name for of, _ in self.inputs]
        self.watermark_ms = max(
            self.watermark_ms, min(self.reached_ms.get(name, 0) for name in needed)
        )

    def copied(self) -> "TwoInputRun":
        """The same query after a kill: what it does from here on is forgotten by this one."""
        found = copy.copy(self)
        found.records, found.reached_ms = list(self.records), dict(self.reached_ms)
        return found

    @property
    def late(self) -> dict[str, int]:
        """Late rows by input."""
        return {name: each.rows.late for name, each in self.records[0].inputs.items()}


class _KeptRuns(_RunsInMemory):
    """Keeps runs that an earlier record names."""

    def keep(self, table: str, runs: object) -> None:
        """Keep all."""

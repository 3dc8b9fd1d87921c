"""The stateful step: converts Spark's calls for one shard to `shard_batch.advance`.

One `ValueState` per shard holds its `ShardRecord`. In event time, each shard has one timer at its
next deadline, so Spark calls the shard in the batch without data that follows the last one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, ValueState
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.shards.late_and_rejected_rows import failed_as_json
from idlestate.backends.shards.operator_step import OperatorStep
from idlestate.backends.shards.own_accumulator import Classes
from idlestate.backends.shards.row_counts import RowsByInput, of_texts
from idlestate.backends.shards.shard_batch import Advanced, advance
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_report import report_of
from idlestate.errors import IdlestateError
from idlestate.pipeline.spark.python_worker import settle
from idlestate.pipeline.spark.task_errors import marked
from idlestate.pipeline.task_batch import TaskBatch, open_task_batch
from idlestate.retention.policy import FOREVER_MS, TimeDomain

OUTPUT_SCHEMA = StructType(
    [
        StructField("report", StringType()),
        StructField("cell", BinaryType()),
        StructField("rejected", StringType()),
    ]
)
"""A shard's first row of a batch contains its report; the others contain only cells."""


class StepOnSparkState:
    """The shards of one operator in one task."""

    def __init__(
        self,
        uid: str,
        handle: StatefulProcessorHandle,
        value: ValueState,
        operator_step: OperatorStep,
        classes: Classes,
    ) -> None:
        """Take the operator, Spark's timers, the state that holds a shard's record, the step, and
        the classes of users' accumulators.
        """
        settle()
        self._uid = uid
        self._classes = classes
        self._handle = handle
        self._value = value
        self._operator_step = operator_step

    @cached_property
    def _batch(self) -> TaskBatch:
        return open_task_batch(self._uid, self._classes)

    def take_in(self, shard: int, cells: Iterable[Row]) -> Iterator[Row]:
        """Process a batch with data: apply the packets and close what is due."""
        packets, counts, rejected = [], [], []
        for cell in cells:
            packets.append(cell.packet)
            if cell.counts is not None:
                counts.append(cell.counts)
            if cell.rejected is not None:
                rejected.append(cell.rejected)
        yield from self._run(shard, packets, of_texts(counts), rejected)

    def sweep(self, shard: int) -> Iterator[Row]:
        """Process a timer of a shard without new data: close what is due."""
        yield from self._run(shard, [], {}, [], fired=True)

    def _run(
        self,
        shard: int,
        packets: Sequence[bytes],
        counts: RowsByInput,
        rejected: Sequence[str],
        *,
        fired: bool = False,
    ) -> Iterator[Row]:
        try:
            record, advanced = self._advance(shard, packets, counts, fired=fired)
        except IdlestateError as error:
            raise marked(error, self._uid) from error
        report = report_of(record, self._batch.in_force, self._batch.times)
        yield _row(report=report.to_json())
        for cell in advanced.cells:
            yield _row(cell=cell)
        failed = failed_as_json(advanced.failed, self._batch.times.batch_id)
        for text in (*rejected, *failed):
            yield _row(rejected=text)

    def _advance(
        self, shard: int, packets: Sequence[bytes], counts: RowsByInput, *, fired: bool
    ) -> tuple[ShardRecord, Advanced]:
        batch = self._batch
        stored = self._value.get()
        record = ShardRecord.decode(stored[0]) if stored else ShardRecord(self._uid, shard)
        assert batch.runs is not None, "a stream keeps its state"
        files = RunFiles(batch.runs, shard, batch.run_id)
        record = files.remove_unwanted(
            record, batch.times.batch_id, batch.retain_batches, orphans=files.is_first_visit
        )
        advanced = advance(
            batch.table,
            record,
            files,
            packets,
            counts,
            batch.times,
            batch.in_force,
            self._operator_step,
        )
        record = advanced.record
        if batch.in_force.policy.time is TimeDomain.EVENT:
            record = self._set_timer(record, fired=fired)
        value = files.save(record, batch.times.batch_id)
        self._value.update((value,))
        return replace(record, file_bytes=len(value)), advanced

    def _set_timer(self, record: ShardRecord, *, fired: bool) -> ShardRecord:
        """Set the timer to the next deadline or earlier; a timer that fires early finds nothing due
        and is set again.
        """
        timer, next_ms = None if fired else record.timer_ms, record.next_end_ms
        if timer is not None and (timer <= self._batch.times.watermark_ms or next_ms < timer):
            self._handle.deleteTimer(timer)
            timer = None
        if timer is None and next_ms < FOREVER_MS:
            self._handle.registerTimer(next_ms)
            timer = next_ms
        return replace(record, timer_ms=timer)


_BLANK = dict.fromkeys(OUTPUT_SCHEMA.names)


def _row(**found: Any) -> Row:
    """A row of `OUTPUT_SCHEMA`, with null for missing values."""
    return Row(**(_BLANK | found))

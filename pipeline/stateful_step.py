"""The stateful step: Spark's calls for one shard, turned into `shard.advance`.

One `ValueState` per shard holds its `ShardRecord`. In event time one timer per shard stands at its
next deadline: it makes Spark call the shard in the batch without data that follows the last one.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
)
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.shards.row_counts import RowCounts
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.errors import IdlestateError
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.python_worker import settle
from idlestate.pipeline.shard_batch import Advanced, advance
from idlestate.pipeline.shard_report import REPORT_FIELDS, ShardReport, report_of
from idlestate.pipeline.task_batch import TaskBatch, open_task_batch
from idlestate.pipeline.task_errors import marked
from idlestate.retention.policy import FOREVER_MS

STATE_NAME = "shard"
STATE_SCHEMA = StructType([StructField("value", BinaryType())])
REPORT_SCHEMA = StructType([StructField(name, LongType()) for name in REPORT_FIELDS])
OUTPUT_SCHEMA = StructType(
    [
        *REPORT_SCHEMA.fields,
        StructField("cell", BinaryType()),
        StructField("rejected", StringType()),
    ]
)
"""A shard's report stands in its first row of a batch; the others carry cells alone."""


class ShardOperator(StatefulProcessor):
    """Keeps the shards of one operator."""

    def __init__(self, spec: OperatorSpec) -> None:
        """Travels to the executors with the operator's spec."""
        self._spec = spec
        self._batch: TaskBatch | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the one state. Spark calls this for each partition of each batch."""
        settle()
        self._batch = None
        self._handle = handle
        self._value = handle.getValueState(STATE_NAME, STATE_SCHEMA)

    def handleInputRows(  # type: ignore[override]  # noqa: N802 - Spark's name; pandas frames
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803, ARG002 - Spark passes it by name
    ) -> Iterator[pd.DataFrame]:
        """A batch with data: take the packets in and close what is due."""
        cells = pd.concat(list(rows), ignore_index=True)
        counts = RowCounts()
        for text in cells["counts"].dropna():
            counts = counts.plus(RowCounts(**json.loads(text)))
        yield from self._run(
            int(key[0]), list(cells["packet"]), counts, list(cells["rejected"].dropna())
        )

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: Any,  # noqa: N803, ARG002
        expiredTimerInfo: Any,  # noqa: N803, ARG002
    ) -> Iterator[pd.DataFrame]:
        """The watermark passed a deadline and no data came: close what is due."""
        yield from self._run(int(key[0]), [], RowCounts(), [], fired=True)

    def close(self) -> None:
        """Nothing is open between calls."""

    def _run(
        self,
        shard: int,
        packets: Sequence[bytes],
        counts: RowCounts,
        rejected: Sequence[str],
        *,
        fired: bool = False,
    ) -> Iterator[pd.DataFrame]:
        try:
            record, advanced = self._advance(shard, packets, counts, fired=fired)
        except IdlestateError as error:
            raise marked(error) from error
        report = report_of(record, self._task().in_force, self._task().times.batch_id)
        yield output_rows(report, advanced, rejected)

    def _advance(
        self, shard: int, packets: Sequence[bytes], counts: RowCounts, *, fired: bool
    ) -> tuple[ShardRecord, Advanced]:
        batch = self._task()
        stored = self._value.get()
        uid = self._spec.uid
        record = ShardRecord.decode(stored[0]) if stored else ShardRecord(uid, shard)
        if batch.runs is None:
            raise IdlestateError("a stream keeps its state")
        files = RunFiles(batch.runs, shard, batch.run_id)
        record = files.remove_unwanted(
            record, batch.times.batch_id, batch.retain_batches, orphans=files.is_first_visit
        )
        advanced = advance(batch.table, record, files, packets, counts, batch.times, batch.in_force)
        record = advanced.record
        if self._spec.is_event_time:
            record = self._set_timer(record, batch, fired=fired)
        self._value.update((record.encode(),))
        return record, advanced

    def _set_timer(self, record: ShardRecord, batch: TaskBatch, *, fired: bool) -> ShardRecord:
        """Have the timer stand at the next deadline, or before it; a timer too early finds none
        due and is set anew.
        """
        timer, next_ms = None if fired else record.timer_ms, record.next_end_ms
        if timer is not None and (timer <= batch.times.watermark_ms or next_ms < timer):
            self._handle.deleteTimer(timer)
            timer = None
        if timer is None and next_ms < FOREVER_MS:
            self._handle.registerTimer(next_ms)
            timer = next_ms
        return replace(record, timer_ms=timer)

    def _task(self) -> TaskBatch:
        if self._batch is None:
            self._batch = open_task_batch(self._spec.uid)
        return self._batch


def output_rows(
    report: ShardReport | None, advanced: Advanced, rejected: Sequence[str]
) -> pd.DataFrame:
    """Rows of `OUTPUT_SCHEMA` for one shard."""
    blank = (None,) * len(REPORT_FIELDS)
    first = astuple(report) if report else blank
    rows: list[tuple[Any, ...]] = [(*first, None, None)]
    rows += [(*blank, cell, None) for cell in advanced.cells]
    rows += [(*blank, None, text) for text in rejected]
    frame = pd.DataFrame(rows, columns=[*REPORT_FIELDS, "cell", "rejected"], dtype=object)
    return frame.astype(dict.fromkeys(REPORT_FIELDS, "Int64"))

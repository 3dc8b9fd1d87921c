"""The packing step: a task's rows become one packet per shard before the shuffle.

Spark then moves a few binary cells instead of every row. Late and rejected rows are counted
(`late_and_rejected_rows`) and, on request, passed on as JSON. Every shard gets a packet, even an
empty one, so that each batch with data visits every shard.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.shards.input_watermarks import joint_watermark_ms
from idlestate.backends.shards.late_and_rejected_rows import late_and_rejected, rows_as_json
from idlestate.backends.shards.operator_kind import INPUT_NUMBER
from idlestate.backends.shards.packet_codec import encode_packet, encode_packets
from idlestate.backends.shards.row_counts import RowCounts, to_text
from idlestate.backends.shards.shard_ranges import shard_bounds
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.steps_by_window import windowed_steps
from idlestate.errors import IdlestateError
from idlestate.pipeline.operator_spec import HASH, TIME, OperatorSpec, original_name
from idlestate.pipeline.spark.python_worker import settle
from idlestate.pipeline.spark.spark_types import spark_schema
from idlestate.pipeline.spark.task_errors import marked
from idlestate.pipeline.task_batch import TaskBatch
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]

_MOMENT = pa.timestamp("us", "UTC")
HIGHEST = "highest"
"""The column for the watermark: the highest event time of a task's accepted rows, in its first
cell. With two inputs that may be idle, it is the watermark itself.
"""

CELL_SCHEMA = pa.schema(
    [
        ("shard", pa.int32()),
        ("packet", pa.binary()),
        ("counts", pa.string()),
        ("rejected", pa.string()),
        (HIGHEST, _MOMENT),
    ]
)
CELL_TYPE = spark_schema(CELL_SCHEMA)


def pack(
    batches: Iterator[pa.RecordBatch], spec: OperatorSpec, batch: TaskBatch
) -> Iterator[pa.RecordBatch]:
    """Pack one task's rows: yields one record batch with a row per shard."""
    received = list(batches)
    if not received:
        return
    rows = pa.Table.from_batches(received)
    rows = rows.rename_columns([original_name(name) for name in rows.column_names])
    n = rows.num_rows
    hashes = _plain(rows, HASH, np.zeros(n, dtype=np.int64))
    times_ms = _plain(rows, TIME, np.zeros(n, dtype=np.int64))
    rejected: dict[str, Ints] = {}
    if spec.has_time:
        rejected = late_and_rejected(
            times_ms,
            batch.times,
            is_event_time=spec.is_event_time,
            max_ahead_ms=spec.max_ahead_ms,
        )
    as_json = None
    if spec.rejects:
        shown = rows.drop_columns([each for each in (HASH, TIME) if each in rows.column_names])
        as_json = rows_as_json(shown, rejected, batch.times.batch_id, spec.input_name)
    if any(len(at) for at in rejected.values()):
        kept = np.delete(np.arange(n), np.concatenate(list(rejected.values())))
        rows, hashes, times_ms = rows.take(pa.array(kept)), hashes[kept], times_ms[kept]
    highest_ms = int(times_ms.max(initial=NEVER_MS)) if spec.is_event_time else NEVER_MS
    found = {reason: len(at) for reason, at in rejected.items()}
    counts = {name: RowCounts() for name in spec.terms}
    counts[spec.input_name] = RowCounts(input=n, highest_ms=highest_ms, **found)
    reached_ms = None if highest_ms == NEVER_MS else highest_ms
    if spec.may_be_idle:
        reached_ms = joint_watermark_ms(spec.input_name, highest_ms, batch.inputs, spec.terms)
    if spec.drops_null_keys:
        kept = np.flatnonzero(_has_key(rows, spec))
        rows, hashes, times_ms = rows.take(pa.array(kept)), hashes[kept], times_ms[kept]
    steps = replace(_steps(rows, hashes, times_ms, spec), newest_ms=highest_ms)
    bounds = shard_bounds(steps.hashes, len(batch.shards))
    packets = encode_packets(steps.slices(bounds), pa.binary())
    blank = [None] * (len(packets) - 1)
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(batch.shards, pa.int32()),
            packets,
            # One shard stores the counts of the entire task; for a sum, it does not matter which.
            pa.array([to_text(counts), *blank], pa.string()),
            pa.array([as_json, *blank], pa.string()),
            pa.array([None if reached_ms is None else reached_ms * 1000, *blank], _MOMENT),
        ],
        schema=CELL_SCHEMA,
    )


def packer(
    spec: OperatorSpec, open_batch: Callable[[], TaskBatch]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`; its name lets the listener find the operator in a plan."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        try:
            yield from pack(batches, spec, open_batch())
        except IdlestateError as error:
            raise marked(error, spec.uid) from error

    run.__name__ = f"{PACKER_NAME}{spec.token}"
    return run


def visits(
    spec: OperatorSpec, open_batch: Callable[[], TaskBatch]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow` that sends every shard an empty packet if there is a row."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        if not sum(batch.num_rows for batch in batches):
            return
        try:
            shards = open_batch().shards
        except IdlestateError as error:
            raise marked(error, spec.uid) from error
        packet = encode_packet(Steps.empty(spec.table))
        cells = {"shard": shards, "packet": [packet] * len(shards)}
        columns = [
            pa.array(cells[field.name], field.type)
            if field.name in cells
            else pa.nulls(len(shards), field.type)
            for field in CELL_SCHEMA
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=CELL_SCHEMA)

    return run


PACKER_NAME = "idlestate_pack_"
_WORTH_ADDING_UP = 1 / 16
"""If combining would save less than this share of the rows, all rows are sent unchanged."""


def _steps(rows: pa.Table, hashes: Ints, times_ms: Ints, spec: OperatorSpec) -> Steps:
    table = spec.table
    columns = {name: _column(rows, name).cast(kind) for name, kind in spec.inputs}
    # The columns of a join's other input.
    columns |= {name: pa.nulls(len(rows), kind) for name, kind in table.inputs.items()
                if name not in columns}  # fmt: skip
    if spec.terms and INPUT_NUMBER in table.kind.carried_as_given:
        number = list(spec.terms).index(spec.input_name)
        columns[INPUT_NUMBER] = pa.array(np.full(len(rows), number, dtype=np.int8))
    keys = [columns[name] for name, _ in table.given_keys]
    if table.fixed_window is not None:
        return windowed_steps(
            table,
            table.fixed_window,
            keys,
            times_ms,
            columns,
            order=[columns[name] for name, _ in table.order],
            hashes=hashes,
        )
    reads = np.ones(len(rows), dtype=bool) if spec.all_read else None
    if spec.read_when is not None:
        reads = pc.fill_null(_column(rows, spec.read_when), False).to_numpy(zero_copy_only=False)
    steps = Steps.from_records(
        table,
        keys,
        times_ms if spec.is_event_time else np.zeros_like(times_ms),
        columns,
        reads=reads,
        order=[columns[name] for name, _ in table.step_order],
        hashes=hashes,
    )
    return steps.collapsed(table.kind, least=_WORTH_ADDING_UP)


def _has_key(rows: pa.Table, spec: OperatorSpec) -> npt.NDArray[np.bool_]:
    """Which rows have no null in their key."""
    has_key = np.ones(len(rows), dtype=bool)
    for name, _ in spec.table.given_keys:
        has_key &= _column(rows, name).is_valid().to_numpy(zero_copy_only=False)
    return has_key


def _plain(rows: pa.Table, name: str, absent: Ints) -> Ints:
    return _column(rows, name).to_numpy() if name in rows.column_names else absent


def _column(rows: pa.Table, name: str) -> pa.Array:
    chunks = rows.column(name).chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)

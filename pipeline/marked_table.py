"""The marks of rows that Spark computes in a query (`row_checks`), computed here: for harnesses."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.key_hashes import hash_before, hash_keys
from idlestate.backends.shards.late_and_rejected_rows import RejectCode
from idlestate.pipeline.operator_checks import Marking
from idlestate.pipeline.operator_spec import HASH, TIME, OperatorSpec, carried_name


def marked_table(rows: pa.Table, spec: OperatorSpec, marking: Marking) -> pa.Table:
    """The columns the packing step needs, hash and time first."""
    rows = rows.combine_chunks()
    keys = [_column(rows, name) for name, _ in spec.table.given_keys]
    hash_of = hash_keys if spec.table.fixed_window is None else hash_before
    front = {HASH: pa.array(hash_of(keys))}
    if spec.has_time:
        front[TIME] = pa.array(_times_ms(rows, keys, marking))
    back = {carried_name(name): rows.column(name) for name in rows.column_names}
    return pa.table(front | back)


def _times_ms(rows: pa.Table, keys: list[pa.Array], marking: Marking) -> np.ndarray[Any, Any]:
    times_ms = np.zeros(len(rows), dtype=np.int64)
    if marking.event_time is not None:
        moments = _column(rows, marking.event_time)
        times_ms = pc.fill_null(moments.cast(pa.int64()), 0).to_numpy() // 1000
        times_ms[times_ms < marking.min_event_time_ms] = RejectCode.TOO_OLD
        times_ms[_flags(moments.is_null())] = RejectCode.NULL_TIME
    if marking.null_key == "reject":
        for column in keys:
            times_ms[_flags(column.is_null())] = RejectCode.NULL_KEY
    if marking.malformed is not None:
        times_ms[_flags(_column(rows, marking.malformed).is_valid())] = RejectCode.MALFORMED
    return times_ms


def _column(rows: pa.Table, name: str) -> pa.Array:
    chunks = rows.column(name).chunks
    return chunks[0] if chunks else pa.array([], rows.schema.field(name).type)


def _flags(flags: pa.Array) -> np.ndarray[Any, Any]:
    return np.asarray(flags.to_numpy(zero_copy_only=False))

"""A table of events in memory, as a log."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.advisor.batches import JobBatches, highest_times, watermarks_of
from idlestate.advisor.event_columns import (
    Reading,
    check_columns,
    check_key_type,
    check_time_type,
    is_text,
    no_usable_row,
)
from idlestate.advisor.event_log import Leftovers, MemoryLog
from idlestate.advisor.gaps import Gaps
from idlestate.advisor.partial_counts import LogPart
from idlestate.advisor.sequences import Sequences
from idlestate.config.time_kinds import FIRST_EVENT_TIME_MS
from idlestate.retention.rules import Times

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def memory_log(table: pa.Table, reading: Reading) -> tuple[MemoryLog, Leftovers]:
    """The log of a table's events.

    Raises:
        RefusedError: a column is missing or of an unusable type, or no row is left.
    """
    check_columns(table.column_names, reading)
    if not table.num_rows:  # its columns may be untyped
        raise no_usable_row(reading, 0)
    t_ms = event_times(table.column(reading.event_time), reading.event_time)
    is_good = (t_ms >= FIRST_EVENT_TIME_MS) & (t_ms <= reading.latest_ms)
    columns = [_key_column(table.column(name), name) for name in reading.key]
    if reading.rejects_null_keys:
        for column in columns:
            is_good &= column.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(is_good)
    rejected = len(is_good) - len(rows)
    batch = _batches(t_ms, rows, len(is_good), reading.batches)
    late, marks_ms = 0, np.zeros(0, dtype=np.int64)
    if reading.batches is not None and len(rows):
        marks_ms = watermarks_of(highest_times(batch, t_ms[rows]), reading.delay_ms)
        in_time = t_ms[rows] > marks_ms[batch]
        late = int(len(rows) - in_time.sum())
        rows, batch = rows[in_time], batch[in_time]
    if not len(rows):
        raise no_usable_row(reading, rejected)
    codes = _codes(columns, rows)
    t_ms = t_ms[rows]
    in_turn = _in_turn(t_ms, batch)
    if in_turn is not None:
        rows, t_ms, codes, batch = rows[in_turn], t_ms[in_turn], codes[in_turn], batch[in_turn]
    by_key, begins_key = _by_key(codes)
    is_ordered = bool((t_ms[1:] >= t_ms[:-1]).all())
    key_t_ms = t_ms[by_key] if is_ordered else _carried(t_ms[by_key], begins_key)
    batch_by_key = None if reading.batches is None else batch[by_key]
    part = LogPart(
        Sequences(key_t_ms, begins_key, batch_by_key),
        Gaps.in_order(t_ms, by_key, begins_key) if is_ordered else None,
    )
    firsts = rows[by_key[begins_key]]
    key_bytes = sum(_bytes_of(column, firsts) for column in columns)
    leftovers = Leftovers(rejected_rows=rejected, late_rows=late, key_bytes=key_bytes)
    return MemoryLog(part, marks_ms), leftovers


def event_times(column: pa.ChunkedArray, name: str) -> Times:
    """Event times in milliseconds; 0 for missing ones.

    Raises:
        RefusedError: the column contains neither times nor times as text.
    """
    check_time_type(column.type, name)
    if is_text(column.type):
        parsed = pd.to_datetime(column.to_pandas(), utc=True, errors="coerce", format="ISO8601")
        column = pa.chunked_array([pa.Array.from_pandas(parsed)])
    millis = pc.cast(column, pa.timestamp("ms"), safe=False).cast(pa.int64())
    t_ms: Times = pc.fill_null(millis, 0).to_numpy()
    return t_ms


def _key_column(column: pa.ChunkedArray, name: str) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    check_key_type(column.type, name)
    return column.combine_chunks()


def _batches(t_ms: Times, rows: Ints, all_rows: int, batches: JobBatches | None) -> Ints:
    if batches is None:
        return np.zeros(len(rows), dtype=np.int64)
    if batches.every_ms:
        return batches.of_times(t_ms[rows])
    return batches.of_rows(all_rows)[rows]


def _codes(columns: Sequence[pa.Array], rows: Ints) -> Ints:
    """A number from 0 for each row, equal for equal keys, that leaves bits for row numbers."""
    at = None if len(rows) == len(columns[0]) else pa.array(rows)
    codes = np.zeros(len(rows), dtype=np.int64)
    for place, whole in enumerate(columns):
        column = whole if at is None else whole.take(at)
        if len(columns) == 1 and (numbers := _small_numbers(column)) is not None:
            return numbers
        encoded = column.dictionary_encode("encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        if place:
            codes = pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _small_numbers(column: pa.Array) -> Ints | None:
    """A column of integers close to each other, from 0; None for any other."""
    if not pa.types.is_integer(column.type) or column.null_count or not len(column):
        return None
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if (high - low).bit_length() + len(column).bit_length() > 63 or high >= 2**63:
        return None
    numbers: Ints = column.to_numpy().astype(np.int64) - low
    return numbers


def _in_turn(t_ms: Times, batch: Ints) -> Ints | None:
    """Rows in the order in which a job processes them; None if they already are."""
    back = (batch[1:] < batch[:-1]) | ((batch[1:] == batch[:-1]) & (t_ms[1:] < t_ms[:-1]))
    return np.lexsort((t_ms, batch)) if back.any() else None


def _by_key(codes: Ints) -> tuple[Ints, Flags]:
    """Positions, key by key, and which of them are the first of their key."""
    bits = len(codes).bit_length()
    # Numbers sort twice as fast as their positions.
    packed = np.sort((codes << bits) | np.arange(len(codes)))
    key = packed >> bits
    begins = np.ones(len(codes), dtype=bool)
    begins[1:] = key[1:] != key[:-1]
    return packed & ((1 << bits) - 1), begins


def _carried(t_ms: Times, begins_key: Flags) -> Times:
    """The running maximum within each key, because time never goes backwards for a key."""
    low = int(t_ms.min())
    bits = int(t_ms.max() - low).bit_length() + 1
    key = np.cumsum(begins_key)
    carried = np.maximum.accumulate((key << bits) | (t_ms - low))
    return (carried & ((1 << bits) - 1)) + low


def _bytes_of(column: pa.Array, rows: Ints) -> int:
    """Bytes of a key column at these rows."""
    try:
        return len(rows) * -(-int(column.type.bit_width) // 8)
    except ValueError:  # of texts
        lengths = pc.binary_length(column.take(pa.array(rows)))
        return 4 * len(rows) + int(pc.sum(lengths).as_py() or 0)

"""Chunks of a log on Spark: events of whole keys, prepared once and kept as binary columns."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.advisor.gaps import Gaps
from idlestate.advisor.partial_counts import LogPart
from idlestate.advisor.sequences import Sequences

Flags = npt.NDArray[np.bool_]

CHUNK_ROWS = 1 << 18
TIME, WIDTH = "t_ms", "key_bytes"
_GAPS = ("firsts", "lasts", "begins", "begin_gaps", "ends", "end_gaps")
SCHEMA = ", ".join(f"{name} binary" for name in (TIME, "begins_key", *_GAPS)) + f", {WIDTH} long"
"""Arrays as bytes, and the bytes of all keys."""


def prepare(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The chunks of a task's rows: key columns, `TIME` and `WIDTH`, sorted by key and time."""
    held: list[pa.RecordBatch] = []
    flags: list[Flags] = []
    rows = 0
    for batch in filter(len, batches):
        begins = _begins_key(batch, held[-1] if held else None)
        cut = int(np.flatnonzero(begins)[-1]) if begins.any() else None
        if cut is not None and rows + cut and rows + len(batch) >= CHUNK_ROWS:
            yield _chunk([*held, batch.slice(0, cut)], [*flags, begins[:cut]])
            held, flags, rows = [], [], 0
        else:
            cut = 0
        held.append(batch.slice(cut))
        flags.append(begins[cut:])
        rows += len(batch) - cut
    if held:
        yield _chunk(held, flags)


def parts(batches: Iterator[pa.RecordBatch], stretch: tuple[int, int] | None) -> Iterator[LogPart]:
    """Prepared chunks, or the part of each in a range of time; without empty ones."""
    for batch in batches:
        for row in range(len(batch)):
            cells = {name: batch.column(name)[row].as_buffer() for name in batch.schema.names[:-1]}
            part = LogPart(
                Sequences(
                    np.frombuffer(cells[TIME], dtype=np.int64),
                    np.frombuffer(cells["begins_key"], dtype=bool),
                ),
                Gaps(*(np.frombuffer(cells[name], dtype=np.int64) for name in _GAPS)),
            )
            part = part if stretch is None else part.between(*stretch)
            if part.rows:
                yield part


def _begins_key(batch: pa.RecordBatch, before: pa.RecordBatch | None) -> Flags:
    """Which rows are the first of their key, including the preceding rows."""
    rows = [batch] if before is None else [before.slice(len(before) - 1), batch]
    table = pa.Table.from_batches(rows)
    begins = np.zeros(len(table), dtype=bool)
    begins[0] = True
    for name in table.column_names:
        if name not in (TIME, WIDTH):
            codes = table.column(name).combine_chunks().dictionary_encode("encode").indices
            begins[1:] |= np.diff(codes.to_numpy()) != 0
    return begins[len(table) - len(batch) :]


def _chunk(batches: list[pa.RecordBatch], flags: list[Flags]) -> pa.RecordBatch:
    rows, begins_key = pa.Table.from_batches(batches), np.concatenate(flags)
    part = LogPart(Sequences(rows.column(TIME).to_numpy(), begins_key))
    arrays = [part.sequences.t_ms, begins_key, *(getattr(part.gaps, name) for name in _GAPS)]
    key_bytes = int(rows.column(WIDTH).to_numpy()[begins_key].sum())
    return pa.RecordBatch.from_arrays(
        [*(pa.array([array.tobytes()], pa.binary()) for array in arrays), pa.array([key_bytes])],
        [TIME, "begins_key", *_GAPS, WIDTH],
    )

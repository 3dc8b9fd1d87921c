"""The file of a run, format version 6: its segments, then the run's index.

Segments: `idlestate.backends.runs.segment`. Index: an Arrow IPC stream of one row per segment, its
`SegmentIndex`, then its length in bytes as a little-endian int64. Its schema metadata:
`idlestate.run` format version, `idlestate.keys` names and types of the key columns,
`idlestate.policy` the policy whose deadlines are indexed, both JSON; `idlestate.columns` the
columns of a row as an Arrow schema. Payload columns have their ids as names
(`idlestate.backends.runs.table_schema`), so the file itself lists its columns.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from struct import Struct

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_sink import Pieces, Sink
from idlestate.backends.runs.byte_source import Source, Whole
from idlestate.backends.runs.row_layout import RowLayout
from idlestate.backends.runs.run import Run
from idlestate.backends.runs.segment import SEGMENT_INDEX, Segment, SegmentIndex
from idlestate.backends.runs.stored_rows import StoredRows
from idlestate.backends.runs.table_schema import TableSchema, widens
from idlestate.errors import DamagedStateError
from idlestate.retention.policy import Policy

_VERSION = b"6"
_VERSION_KEY, _KEYS_KEY, _POLICY_KEY = b"idlestate.run", b"idlestate.keys", b"idlestate.policy"
_COLUMNS_KEY = b"idlestate.columns"
_LENGTH = Struct("<q")


class RunError(DamagedStateError, ValueError):
    """A run cannot be read: it is damaged, or has another version or schema."""


@dataclass(frozen=True, slots=True)
class RunIndex:
    """What is known about a run without reading its rows."""

    layout: RowLayout
    policy: Policy
    """The policy under which deadlines are indexed."""
    segments: Sequence[SegmentIndex]

    def run(self, source: Source, schema: TableSchema, batch_id: int) -> Run:
        """The run; arguments as in `decode_run`."""
        rows = StoredRows(source, self.layout, self.segments)
        return Run.of(rows, schema, self.policy, batch_id)


def encode_run(
    segments: Iterable[Segment], schema: TableSchema, policy: Policy, sink: Sink
) -> tuple[int, RunIndex]:
    """Write the file of a run, segment by segment.

    Returns the number of rows that it has or represents, and what `decode_run` would read, so the
    writer need not read the run back.

    Args:
        segments: in order of hash, at least one, of the same layout.
        schema: the table's columns.
        policy: the policy under which the segments are indexed.
        sink: the file, open for writing, empty.
    """
    rest = iter(segments)
    first = next(rest)
    layout = first.packed.layout
    entries: list[SegmentIndex] = []
    at = rows = 0
    for segment in chain([first], rest):
        entry, pieces = segment.encode(at)
        for piece in pieces:
            sink.write(piece)
            at += len(piece)
        entries.append(entry)
        rows += segment.counted(schema)
    metadata = {
        _VERSION_KEY: _VERSION,
        _KEYS_KEY: _shown_keys(schema),
        _POLICY_KEY: json.dumps(policy.to_json()).encode(),
        _COLUMNS_KEY: layout.schema.serialize().to_pybytes(),
    }
    index = _encode_index(entries, metadata)
    for part in (index, _LENGTH.pack(index.size)):
        sink.write(memoryview(part))
    return rows, RunIndex(layout, policy, entries)


def run_in_memory(
    segments: Iterable[Segment], schema: TableSchema, policy: Policy, batch_id: int
) -> Run:
    """A run in memory, as `encode_run` would write it."""
    sink = Pieces()
    _, index = encode_run(segments, schema, policy, sink)
    return index.run(Whole(pa.py_buffer(sink.joined())), schema, batch_id)


def decode_run(source: Source, schema: TableSchema, batch_id: int) -> Run:
    """Open a run without reading rows.

    Args:
        source: the file.
        schema: the table's current columns; the file may have others, or narrower types.
        batch_id: the batch that wrote it.

    Raises:
        RunError: the file is damaged, has another format version, or has incompatible columns.
    """
    try:
        index = _read_index(source)
        metadata = index.schema.metadata or {}
        if metadata.get(_VERSION_KEY) != _VERSION:
            raise RunError(
                f"run format {metadata.get(_VERSION_KEY)!r} is not supported "
                f"(supported: {_VERSION!r}); use the version of idlestate that wrote it"
            )
        stored = pa.ipc.read_schema(pa.py_buffer(metadata[_COLUMNS_KEY]))
        _check(metadata.get(_KEYS_KEY), stored, schema)
        policy = Policy.from_json(json.loads(metadata[_POLICY_KEY]))
    except (pa.ArrowInvalid, OSError, IndexError) as error:
        raise RunError(f"this is not a complete run: {error}") from error
    return RunIndex(RowLayout(stored), policy, list(_entries(index))).run(source, schema, batch_id)


def _shown_keys(schema: TableSchema) -> bytes:
    return json.dumps([[name, str(kind)] for name, kind in schema.keys]).encode()


def _check(keys: bytes | None, stored: pa.Schema, schema: TableSchema) -> None:
    if keys != _shown_keys(schema):
        raise RunError(
            f"its keys are {(keys or b'').decode()}, and the operator's are "
            f"{_shown_keys(schema).decode()}: a checkpoint keeps its keys"
        )
    for column in schema.columns:
        if column.id in stored.names:
            kind = stored.field(column.id).type
            if not widens(kind, column.kind):
                raise RunError(
                    f"its column {column.id} is of type {kind}, which cannot be read as "
                    f"{column.kind}"
                )


def _encode_index(entries: Sequence[SegmentIndex], metadata: dict[bytes, bytes]) -> pa.Buffer:
    columns = dict(zip(SegmentIndex._fields, zip(*entries, strict=True), strict=True))
    batch = pa.RecordBatch.from_pydict(columns, schema=SEGMENT_INDEX.with_metadata(metadata))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _read_index(source: Source) -> pa.RecordBatch:
    stop = source.data.size - _LENGTH.size
    if stop < 0:
        raise RunError(f"this is not a complete run: {source.data.size} bytes")
    source.need(np.array([stop]), np.array([source.data.size]))
    (length,) = _LENGTH.unpack(source.data.slice(stop))
    if not 0 < length <= stop:
        raise RunError("this is not a complete run: it does not end with the length of an index")
    source.need(np.array([stop - length]), np.array([stop]))
    with pa.ipc.open_stream(source.data.slice(stop - length, length)) as reader:
        return reader.read_next_batch()


def _entries(index: pa.RecordBatch) -> Iterator[SegmentIndex]:
    arrays = ("fences", "codes")
    for at, row in enumerate(index.drop_columns(list(arrays)).to_pylist()):
        yield SegmentIndex(**row, **{name: index[name][at].values.to_numpy() for name in arrays})

"""The file of a run, format version 4: an Arrow IPC stream, then the run's index.

Stream: one record batch per segment (`idlestate.backends.runs.segment`). Index: an Arrow IPC stream
of one row per segment, then its length in bytes as a little-endian int64. It says where the
segment's message begins, and the fields of its `SegmentIndex`. Its schema metadata: `idlestate.run`
format version, `idlestate.keys` names and types of the key columns, `idlestate.policy` the policy
whose deadlines are indexed, both JSON. Payload columns stand in the stream under their ids
(`idlestate.backends.runs.table_schema`), so the file says itself which ones it has.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from struct import Struct

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.reading import Ints, Source
from idlestate.backends.runs.run import Run
from idlestate.backends.runs.segment import Segment, SegmentIndex
from idlestate.backends.runs.table_schema import TableSchema, widens
from idlestate.errors import DamagedStateError
from idlestate.retention.policy import Policy

_VERSION = b"4"
_VERSION_KEY, _KEYS_KEY, _POLICY_KEY = b"idlestate.run", b"idlestate.keys", b"idlestate.policy"
_INDEX = pa.schema(
    [
        ("begin", pa.int64()),
        ("fences", pa.list_(pa.int64())),
        ("last", pa.int64()),
        ("codes", pa.list_(pa.uint16())),
        ("base_ms", pa.int64()),
        ("shift", pa.int64()),
    ]
)
_LENGTH = Struct("<q")
_PREFIX = Struct("<ii")
"""How a message of a stream begins: a mark, and the length of its header."""


class RunError(DamagedStateError, ValueError):
    """A run cannot be read: it is damaged, or of another version or schema."""


def encode_run(
    segments: Iterable[Segment], schema: TableSchema, policy: Policy, sink: pa.NativeFile
) -> int:
    """Write the file of a run, segment by segment, and say how many rows it has.

    Args:
        segments: in order of hash, at least one.
        schema: the table's columns.
        policy: the policy under which the segments are indexed.
        sink: the file, open for writing, empty.
    """
    batches = ((segment, segment.encode()) for segment in segments)
    first = next(batches)
    stored = first[1].schema
    entries = []
    with pa.ipc.new_stream(sink, stored) as writer:
        for segment, batch in chain([first], batches):
            # The writer puts the schema in front of the first batch, not before it is there.
            begin = sink.tell() or stored.serialize().size
            writer.write_batch(batch)
            entries.append((begin, len(segment), segment.index))
    metadata = {
        _VERSION_KEY: _VERSION,
        _KEYS_KEY: _shown_keys(schema),
        _POLICY_KEY: json.dumps(policy.to_json()).encode(),
    }
    index = _encode_index([(begin, each) for begin, _, each in entries], metadata)
    sink.write(index)
    sink.write(_LENGTH.pack(index.size))
    return sum(rows for _, rows, _ in entries)


def decode_run(source: Source, schema: TableSchema, batch_id: int) -> Run:
    """Read a run; columns stay where they are, and none is read.

    Args:
        source: the file.
        schema: the table's columns today; the file may have others, of narrower types.
        batch_id: the batch that wrote it.

    Raises:
        RunError: damaged, of another format version, or with columns that cannot be read as these.
    """
    try:
        index = _read_index(source)
        metadata = index.schema.metadata or {}
        if metadata.get(_VERSION_KEY) != _VERSION:
            raise RunError(
                f"run format {metadata.get(_VERSION_KEY)!r} is not the one this version reads "
                f"({_VERSION!r}); use the version of idlestate that wrote it"
            )
        begins = index["begin"].to_numpy()
        stored = pa.ipc.read_schema(_messages(source, np.zeros(1, dtype=np.int64))[0])
        _check(metadata.get(_KEYS_KEY), stored, schema)
        messages = _messages(source, begins)
        segments = tuple(
            Segment.decode(pa.ipc.read_record_batch(message, stored), schema, each)
            for message, each in zip(messages, _segment_indices(index), strict=True)
        )
        policy = Policy.from_json(json.loads(metadata[_POLICY_KEY]))
    except (pa.ArrowInvalid, OSError, IndexError) as error:
        raise RunError(f"this is no whole run: {error}") from error
    return Run(segments, policy, batch_id, source)


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
            kind = stored.field(column.id).type.value_type
            if not widens(kind, column.kind):
                raise RunError(
                    f"its column {column.id} is of type {kind}, which cannot be read as "
                    f"{column.kind}"
                )


def _encode_index(
    entries: Sequence[tuple[int, SegmentIndex]], metadata: dict[bytes, bytes]
) -> pa.Buffer:
    rows = [
        {
            "begin": begin,
            "fences": index.fences,
            "last": index.last,
            "codes": index.codes,
            "base_ms": index.base_ms,
            "shift": index.shift,
        }
        for begin, index in entries
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=_INDEX.with_metadata(metadata))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _read_index(source: Source) -> pa.RecordBatch:
    stop = source.data.size - _LENGTH.size
    if stop < 0:
        raise RunError(f"this is no whole run: {source.data.size} bytes")
    _need(source, np.array([stop]), _LENGTH.size)
    (length,) = _LENGTH.unpack(source.data.slice(stop))
    if not 0 < length <= stop:
        raise RunError("this is no whole run: it does not end with the length of an index")
    _need(source, np.array([stop - length]), length)
    with pa.ipc.open_stream(source.data.slice(stop - length, length)) as reader:
        return reader.read_next_batch()


def _segment_indices(index: pa.RecordBatch) -> Iterator[SegmentIndex]:
    for at, row in enumerate(index.select(["last", "base_ms", "shift"]).to_pylist()):
        fences = index["fences"][at].values.to_numpy()
        codes = index["codes"][at].values.to_numpy()
        yield SegmentIndex(fences, row["last"], codes, row["base_ms"], row["shift"])


def _messages(source: Source, begins: Ints) -> list[pa.Buffer]:
    """The file from the beginning of each message on; its header may be read."""
    _need(source, begins, _PREFIX.size)
    tails = [source.data.slice(begin) for begin in begins.tolist()]
    lengths = [_PREFIX.unpack(tail.slice(0, _PREFIX.size))[1] for tail in tails]
    _need(source, begins, _PREFIX.size + np.array(lengths))
    return tails


def _need(source: Source, begins: Ints, lengths: Ints | int) -> None:
    if not source.is_whole:
        source.need(begins, begins + lengths)

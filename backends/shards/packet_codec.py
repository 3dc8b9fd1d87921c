"""A packet: the steps of one task for one shard, in one Arrow cell.

Layout, version 4: an Arrow IPC stream of one record batch. Columns: `hash` int64; the key columns
`k0`, `k1` ...; `steps`, a list per key of struct { `t`: ms since the packet's first; `read` bool,
only if some row is a read; `o0` ... the order columns; `c0` ... the carried columns of the
operator's kind, without those that are null in every row, such as the columns of a join's other
input }. Times and carried integers use the narrowest type that fits all values of the packet. The
schema's metadata contains the format version, the packet's first time and its task's newest time
(ms).

A stored packet of waiting rows (`idlestate.backends.shards.held_rows`) contains all carried columns
under their ids, so that it can be read after the definition has changed.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, to_arrow
from idlestate.backends.runs.table_schema import Column
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.errors import DamagedStateError, RefusedError
from idlestate.retention.rules import NEVER_MS

_VERSION = b"4"
_VERSION_KEY = b"idlestate.packet"
_FIRST_KEY, _NEWEST_KEY = b"idlestate.first_ms", b"idlestate.newest_ms"
_MOST_BYTES = 2**31 - 1
"""The most bytes that a binary column can hold; a large binary column has no such limit."""
_NARROW = {"i": (np.int8, np.int16, np.int32), "u": (np.uint8, np.uint16, np.uint32)}


class PacketError(RefusedError, ValueError):
    """A packet comes from another version of idlestate: run the same version on driver and
    executors.
    """


class PacketsTooLargeError(RefusedError, ValueError):
    """The rows of one task do not fit into its packets: read fewer rows per batch."""


class KeptPacketError(DamagedStateError, ValueError):
    """Waiting rows cannot be read: another version of idlestate stored them."""


def encode_packet(steps: Steps) -> bytes:
    """The packet as bytes."""
    found: bytes = encode_packets([steps], pa.binary())[0].as_py()
    return found


def encode_packets(
    parts: Iterable[Steps], kind: pa.DataType, ids: Sequence[str] | None = None
) -> pa.Array:
    """A packet for each part, as a column.

    Args:
        parts: the steps of each packet.
        kind: the column's type: binary, or large binary.
        ids: for stored packets, the ids of the carried columns.

    Raises:
        PacketsTooLargeError: the packets do not fit into such a column.
    """
    sink = pa.BufferOutputStream()
    ends = [0]
    for part in parts:
        _write(part, ids, sink)
        ends.append(sink.tell())
    is_large = pa.types.is_large_binary(kind)
    if ends[-1] > _MOST_BYTES and not is_large:
        raise PacketsTooLargeError(
            f"the rows of one task take {ends[-1]:,} bytes, and a task can hand over "
            f"{_MOST_BYTES:,}: limit what the source reads in a batch (maxFilesPerTrigger or "
            "maxBytesPerTrigger for files, maxOffsetsPerTrigger for Kafka), or divide the input "
            "into more partitions"
        )
    offsets = pa.py_buffer(np.array(ends, dtype=np.int64 if is_large else np.int32))
    return pa.Array.from_buffers(kind, len(ends) - 1, [None, offsets, sink.getvalue()])


def _write(steps: Steps, ids: Sequence[str] | None, sink: pa.NativeFile) -> None:
    first_ms = int(steps.t_ms.min()) if len(steps.t_ms) else 0
    names, columns = ["t"], [pa.array(_narrowed(steps.t_ms - first_ms))]
    if steps.is_read is not None:
        names.append("read")
        columns.append(pa.array(steps.is_read))
    for at, column in enumerate(steps.order):
        names.append(f"o{at}")
        columns.append(column)
    for at, field in enumerate(steps.carried):
        if isinstance(field, np.ndarray):
            column = to_arrow(_narrowed(field))
        elif ids is None and field.null_count == len(field):
            continue
        else:
            column = to_arrow(field)
        names.append(f"c{at}" if ids is None else f"c.{ids[at]}")
        columns.append(column)
    rows = pa.StructArray.from_arrays(columns, names=names)
    offsets = np.concatenate([[0], np.cumsum(steps.counts)])
    lists = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), rows)
    key_names = [f"k{at}" for at in range(len(steps.keys))]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(steps.hashes), *steps.keys, lists], names=["hash", *key_names, "steps"]
    ).replace_schema_metadata(
        {_VERSION_KEY: _VERSION, _FIRST_KEY: str(first_ms), _NEWEST_KEY: str(steps.newest_ms)}
    )
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


def decode_packet(data: bytes, spec: TableSpec, *, is_kept: bool = False) -> Steps:
    """The steps of a packet.

    Args:
        data: the packet.
        spec: what the operator is.
        is_kept: whether it is a stored packet, with columns by id.

    Raises:
        PacketError: a task's packet has another format version.
        KeptPacketError: a stored packet has another format version.
    """
    reader = pa.ipc.open_stream(data)
    version = (reader.schema.metadata or {}).get(_VERSION_KEY)
    if version != _VERSION and is_kept:
        raise KeptPacketError(
            f"waiting rows are stored in packet format {version!r}, which is not supported "
            f"(supported: {_VERSION!r}); use the version of idlestate that stored them"
        )
    if version != _VERSION:
        raise PacketError(
            f"a packet of format {version!r} reached code that reads {_VERSION!r}: install the "
            "same version of idlestate on the driver and on every executor"
        )
    batch = reader.read_next_batch()
    lists = batch.column("steps")
    rows = lists.values
    names = [field.name for field in rows.type]

    def column(name: str) -> pa.Array:
        return rows.field(names.index(name))

    def of_kind(name: str, kind: pa.DataType) -> pa.Array:
        found = column(name)
        return found if found.type == kind else found.cast(kind)

    def carried(at: int, each: Column) -> Field:
        name = f"c.{each.id}" if is_kept else f"c{at}"
        if is_kept and name not in names:
            return each.blanks(len(rows))
        if isinstance(each.blank, np.ndarray):
            return column(name).to_numpy().astype(each.blank.dtype, copy=False)
        return of_kind(name, each.kind) if name in names else pa.nulls(len(rows), each.kind)

    first_ms = int(reader.schema.metadata[_FIRST_KEY])
    return Steps(
        batch.column("hash").to_numpy(),
        [batch.column(f"k{at}") for at in range(len(spec.keys))],
        np.diff(lists.offsets.to_numpy()),
        column("t").to_numpy().astype(np.int64) + first_ms,
        column("read").to_numpy(zero_copy_only=False) if "read" in names else None,
        [of_kind(f"o{at}", kind) for at, (_, kind) in enumerate(spec.step_order)],
        [carried(at, each) for at, each in enumerate(spec.carried)],
        int(reader.schema.metadata.get(_NEWEST_KEY, NEVER_MS)),
    )


def _narrowed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers in the narrowest type that fits all of them; other numbers unchanged."""
    if values.dtype.kind not in _NARROW or not len(values):
        return values
    low, high = values.min(), values.max()
    for kind in _NARROW[values.dtype.kind]:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    return values

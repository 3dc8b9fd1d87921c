"""A packet: the steps of one task for one shard as one Arrow cell.

Layout, version 2: an Arrow IPC stream of one record batch. Columns: `hash` int64; the key
columns `k0`, `k1` ...; `steps`, a list per key of struct { `t` int64 (ms); `read` bool, only when
some row is a read; `o0` ... the order columns; `c0` ... what the operator's kind carries }. The
schema's metadata holds the format version.
"""

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.fields import Field, to_arrow
from idlestate.backends.shards.steps import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.errors import RefusedError

_VERSION = b"2"
_VERSION_KEY = b"idlestate.packet"


class PacketError(RefusedError, ValueError):
    """A packet of another version of idlestate: run driver and executors on the same version."""


def encode_packet(steps: Steps) -> bytes:
    """The packet as bytes."""
    names, columns = ["t"], [pa.array(steps.t_ms)]
    if steps.is_read is not None:
        names.append("read")
        columns.append(pa.array(steps.is_read))
    for at, column in enumerate(steps.order):
        names.append(f"o{at}")
        columns.append(column)
    for at, field in enumerate(steps.carried):
        names.append(f"c{at}")
        columns.append(to_arrow(field))
    rows = pa.StructArray.from_arrays(columns, names=names)
    offsets = np.concatenate([[0], np.cumsum(steps.counts)])
    lists = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), rows)
    key_names = [f"k{at}" for at in range(len(steps.keys))]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(steps.hashes), *steps.keys, lists], names=["hash", *key_names, "steps"]
    ).replace_schema_metadata({_VERSION_KEY: _VERSION})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode_packet(data: bytes, spec: TableSpec) -> Steps:
    """The steps of a packet.

    Raises:
        PacketError: the packet has another format version.
    """
    reader = pa.ipc.open_stream(data)
    version = (reader.schema.metadata or {}).get(_VERSION_KEY)
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

    carried: list[Field] = [
        column(f"c{at}").to_numpy() if each.is_numpy else column(f"c{at}")
        for at, each in enumerate(spec.kind.carried)
    ]
    return Steps(
        batch.column("hash").to_numpy(),
        [batch.column(f"k{at}") for at in range(len(spec.keys))],
        np.diff(lists.offsets.to_numpy()),
        column("t").to_numpy(),
        column("read").to_numpy(zero_copy_only=False) if "read" in names else None,
        [column(f"o{at}") for at in range(len(spec.order))],
        carried,
    )

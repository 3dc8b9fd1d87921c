"""Rows of two inputs as a shard of a join receives them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.shards.emitted_rows import ROWS_PER_CELL
from idlestate.backends.shards.packet_codec import decode_packet, encode_packet
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.stream_join import stream_join
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy

TYPES = {"l": pa.string(), "r": pa.int64()}
NO_POLICIES = (Policy(), Policy())


@dataclass(frozen=True)
class Row:
    side: int
    key: str | None
    t_ms: int
    number: int

    @property
    def value(self):
        return self.number if self.side else f"l{self.number}"


def spec_of(how, between):
    right = [] if how in ("semi", "anti") else ["r"]
    return TableSpec((("k", pa.string()),), stream_join(how, between, ["l"], right, TYPES))


def steps_of(spec, rows, hash_bits=64):
    """The rows as two packets, one of each input, as a shard receives them."""
    packets = []
    for side in (0, 1):
        own = [row for row in rows if row.side == side]
        keys = [pa.array([row.key for row in own], pa.string())]
        values = {"l": [None if side else row.value for row in own],
                  "r": [row.value if side else None for row in own]}  # fmt: skip
        steps = Steps.from_records(
            spec,
            keys,
            np.array([row.t_ms for row in own], dtype=np.int64),
            {
                name: pa.array(values.get(name, [None] * len(own)), kind)
                for name, kind in spec.kind.inputs.items()
            },
            reads=np.full(len(own), bool(side)),
            hashes=hash_keys(keys) & ((1 << hash_bits) - 1) if hash_bits < 64 else None,
        )
        packets.append(decode_packet(encode_packet(steps), spec))
    return Steps.merged(packets)


def rows_of(outcome):
    batches = list(outcome.changes)
    assert all(len(batch) <= ROWS_PER_CELL for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]

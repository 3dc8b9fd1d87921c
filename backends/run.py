"""A run: the lives of a table as immutable columns, sorted by key hash.

File layout, version 1: an Arrow IPC file of one uncompressed record batch, to be memory-mapped.
Columns: `hash` int64, ascending; the key columns `k0` ...; `created`, `written`, `read`, `armed`
int64 milliseconds (`read` and `armed` are left out while no life has one); `a<i>_<j>` field j of
aggregate i. Schema metadata: `idlestate.run` format version, `idlestate.schema` fingerprint of
keys and aggregates, `idlestate.policy` version of the policy that the batch was judged by.
"""

import hashlib
import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.fields import Field, from_arrow, take, take_joined, to_arrow
from idlestate.backends.steps import TableSpec
from idlestate.retention.lives import Lives
from idlestate.retention.rules import NEVER_MS

_VERSION = b"1"
_VERSION_KEY, _SCHEMA_KEY, _POLICY_KEY = b"idlestate.run", b"idlestate.schema", b"idlestate.policy"
Ints = npt.NDArray[np.int64]


class RunError(ValueError):
    """A run cannot be read: it is damaged, or of another version or schema."""


def fingerprint(spec: TableSpec) -> str:
    """Sixteen hex digits that change with keys, aggregates, order columns and their types."""
    parts = {
        "keys": [[name, str(kind)] for name, kind in spec.keys],
        "order": [[name, str(kind)] for name, kind in spec.order],
        "aggregates": [[a.name, a.text, str(a.result_type)] for a in spec.aggregates],
    }
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Run:
    """Lives of m keys: hashes ascending, keys, times, and accumulator fields per aggregate."""

    hashes: Ints
    keys: list[pa.Array]
    lives: Lives
    fields: list[list[Field]]

    @classmethod
    def empty(cls, spec: TableSpec) -> "Run":
        """A run without lives."""
        none = np.zeros(0, dtype=np.int64)
        fields: list[list[Field]] = []
        for aggregate in spec.aggregates:
            lifted = aggregate.lift(
                _no_values(spec), np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int64)
            )
            fields.append(lifted)
        return cls(
            none,
            [pa.array([], kind) for _, kind in spec.keys],
            Lives(none, none, none, none),
            fields,
        )

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, rows: Ints) -> "Run":
        """The lives at these positions."""
        return Run(
            self.hashes[rows],
            [column.take(pa.array(rows)) for column in self.keys],
            self.lives.take(rows),
            [[take(field, rows) for field in fields] for fields in self.fields],
        )

    def joined(self, other: "Run", rows: Ints) -> "Run":
        """Positions of this run followed by the other's."""
        if len(rows) == len(self) and len(other) == 0:
            return self
        one, two = self.lives, other.lives
        return Run(
            np.concatenate([self.hashes, other.hashes])[rows],
            [take_joined(a, b, rows) for a, b in zip(self.keys, other.keys, strict=True)],
            Lives(
                np.concatenate([one.created_at_ms, two.created_at_ms])[rows],
                np.concatenate([one.written_at_ms, two.written_at_ms])[rows],
                np.concatenate([one.read_at_ms, two.read_at_ms])[rows],
                np.concatenate([one.armed_at_ms, two.armed_at_ms])[rows],
            ),
            [
                [take_joined(a, b, rows) for a, b in zip(left, right, strict=True)]
                for left, right in zip(self.fields, other.fields, strict=True)
            ],
        )

    def encode(self, spec: TableSpec, policy_version: int) -> pa.Buffer:
        """The run as the bytes of its file."""
        lives = self.lives
        columns: dict[str, pa.Array] = {"hash": pa.array(self.hashes)}
        columns |= {f"k{at}": column for at, column in enumerate(self.keys)}
        columns["created"] = pa.array(lives.created_at_ms)
        columns["written"] = pa.array(lives.written_at_ms)
        for name, times in (("read", lives.read_at_ms), ("armed", lives.armed_at_ms)):
            if (times != NEVER_MS).any():
                columns[name] = pa.array(times)
        for i, fields in enumerate(self.fields):
            columns |= {f"a{i}_{j}": to_arrow(field) for j, field in enumerate(fields)}
        batch = pa.RecordBatch.from_pydict(columns).replace_schema_metadata(
            {
                _VERSION_KEY: _VERSION,
                _SCHEMA_KEY: fingerprint(spec).encode(),
                _POLICY_KEY: str(policy_version).encode(),
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue()

    @classmethod
    def decode(cls, source: pa.NativeFile, spec: TableSpec) -> "Run":
        """Read a run; columns stay mapped to the file.

        Raises:
            RunError: damaged, or another format version or schema.
        """
        try:
            batch = pa.ipc.open_file(source).get_batch(0)
        except (pa.ArrowInvalid, OSError) as error:
            raise RunError(f"this is no whole run: {error}") from error
        metadata = batch.schema.metadata or {}
        if metadata.get(_VERSION_KEY) != _VERSION:
            raise RunError(
                f"run format {metadata.get(_VERSION_KEY)!r} is not the one this version reads "
                f"({_VERSION!r}); use the version of idlestate that wrote it"
            )
        if metadata.get(_SCHEMA_KEY) != fingerprint(spec).encode():
            raise RunError("its keys or aggregates are not the ones this query declares")
        created = batch.column("created").to_numpy()
        absent = np.full(len(created), NEVER_MS)

        def times(name: str) -> Ints:
            return batch.column(name).to_numpy() if name in batch.schema.names else absent

        return cls(
            batch.column("hash").to_numpy(),
            [batch.column(f"k{at}") for at in range(len(spec.keys))],
            Lives(created, batch.column("written").to_numpy(), times("read"), times("armed")),
            [
                [
                    from_arrow(batch.column(f"a{i}_{j}"), like)
                    for j, like in enumerate(aggregate.accumulator.field_types)
                ]
                for i, aggregate in enumerate(spec.aggregates)
            ],
        )


def _no_values(spec: TableSpec) -> dict[str, pa.Array]:
    return {name: pa.array([], kind) for a in spec.aggregates for name, kind in a.inputs}

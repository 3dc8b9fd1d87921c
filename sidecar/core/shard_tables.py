"""Tables of shards in memory: reading them from the store and writing them to it.

A table never changes, so it can be used without a lock while newer ones are created. Runs are held
in an LRU cache of limited size.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

import pyarrow as pa

from idlestate.backends.runs.byte_sink import Pieces
from idlestate.backends.runs.byte_source import Whole
from idlestate.backends.runs.run import Run
from idlestate.backends.runs.run_codec import RunError, decode_run, encode_run
from idlestate.backends.runs.segment import Segment
from idlestate.backends.runs.table_runs import Next
from idlestate.backends.runs.table_schema import TableSchema
from idlestate.backends.shards.next_record import next_record, open_table
from idlestate.backends.shards.shard_record import RunRef, ShardRecord
from idlestate.backends.shards.shard_table import Outcome, ShardTable
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.sidecar.core.segment_keys import segment_key, segment_keys
from idlestate.sidecar.protocol.errors import DamagedDirectoryError

_PART_BYTES = 1 << 24
"""Bytes of a run in one value of the store."""


class Values(Protocol):
    """Stores the values of runs."""

    def get(self, key: str) -> bytes | None:
        """The value of a key; None if there is none."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a step for a shard: its record, and the values to write."""

    record: ShardRecord
    values: dict[str, bytes]


class ShardTables:
    """The tables of one operator."""

    def __init__(self, store: Values, uid: str, spec: TableSpec, cache_bytes: int) -> None:
        """Start with an empty cache."""
        self._store = store
        self._uid = uid
        self._spec = spec
        self._cache_bytes = cache_bytes
        self._runs: OrderedDict[str, tuple[Run, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def place(self, shard: int) -> "ShardValues":
        """The place of a shard's runs, where new runs wait to be written."""
        return ShardValues(self, shard)

    def table(self, record: ShardRecord, shard: int) -> ShardTable:
        """The table of a shard's record.

        Raises:
            DamagedDirectoryError: one of its runs is lost or damaged.
        """
        return open_table(self._spec, record, self.place(shard))

    def write(
        self,
        record: ShardRecord,
        shard: int,
        outcome: Outcome,
        to_ms: int,
        now_ms: int,
    ) -> Written:
        """The record after an outcome.

        Args:
            record: the record before the outcome.
            shard: the shard's number.
            outcome: what happened.
            to_ms: the time that the shard reached.
            now_ms: the clock.
        """
        place = self.place(shard)
        after = next_record(record, outcome, place, to_ms, now_ms)
        return Written(after, place.values)

    def forget(self, runs: Iterable[str]) -> None:
        """Remove runs that are no longer needed from the cache."""
        with self._lock:
            for name in runs:
                _, size = self._runs.pop(name, (None, 0))
                self._bytes -= size

    def made(
        self, shard: int, segments: Iterable[Segment], following: Next
    ) -> tuple[RunRef, Run, dict[str, bytes]]:
        """Create a new run and its values."""
        schema = following.before.schema
        sink = Pieces()
        rows, index = encode_run(segments, schema, following.policy, sink)
        name, data = uuid4().hex, sink.joined()
        # A single part is the data itself, without a copy.
        parts = [data[at : at + _PART_BYTES] for at in range(0, len(data), _PART_BYTES)]
        run = index.run(Whole(pa.py_buffer(data)), schema, following.batch_id)
        self._keep(name, run, len(data))
        values = {segment_key(self._uid, shard, name, at): part for at, part in enumerate(parts)}
        return RunRef(name, following.batch_id, rows, len(data), len(parts)), run, values

    def run(self, ref: RunRef, shard: int, schema: TableSchema) -> Run:
        """A run of the store.

        Raises:
            DamagedDirectoryError: it is lost or damaged.
        """
        with self._lock:
            if ref.name in self._runs:
                self._runs.move_to_end(ref.name)
                return self._runs[ref.name][0]
        parts = []
        for key in segment_keys(self._uid, shard, ref):
            value = self._store.get(key)
            if value is None:
                raise DamagedDirectoryError(
                    f"{key} is missing: restore the sidecar's folder from a backup"
                )
            parts.append(value)
        try:
            data = pa.py_buffer(b"".join(parts))
            run = decode_run(Whole(data), schema, ref.version)
        except RunError as error:
            raise DamagedDirectoryError(f"{key}: {error}") from error
        self._keep(ref.name, run, ref.bytes)
        return run

    def _keep(self, name: str, run: Run, size: int) -> None:
        size += run.stored.kept_bytes
        with self._lock:
            _, before = self._runs.pop(name, (None, 0))  # two threads may have read it
            self._runs[name] = (run, size)
            self._bytes += size - before
            while self._bytes > self._cache_bytes and len(self._runs) > 1:
                _, (_, freed) = self._runs.popitem(last=False)
                self._bytes -= freed


class ShardValues:
    """A `RunPlace` whose runs are values in the store, written with the record that names them."""

    def __init__(self, tables: ShardTables, shard: int) -> None:
        self._tables = tables
        self._shard = shard
        self.values: dict[str, bytes] = {}

    def write(
        self,
        table: str,  # noqa: ARG002
        segments: Iterator[Segment],
        following: Next,
    ) -> tuple[RunRef, Run]:
        """See `RunPlace`; the values are complete when they are written."""
        ref, run, values = self._tables.made(self._shard, segments, following)
        self.values |= values
        return ref, run

    def read(self, table: str, ref: RunRef, schema: TableSchema) -> Run:  # noqa: ARG002
        """See `RunPlace`."""
        return self._tables.run(ref, self._shard, schema)

    def keep(self, table: str, runs: Mapping[RunRef, Run]) -> None:
        """Does nothing: `ShardTables` keeps the most recently used runs."""

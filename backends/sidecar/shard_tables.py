"""Tables of shards in memory, and how they come from the store and go there.

A table never changes: who has one may use it without a lock, while newer ones are made. Tables
are kept by the runs they are made of, the ones used last up to a number of bytes.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa

from idlestate.backends import ended
from idlestate.backends.reading import Whole
from idlestate.backends.run import Run
from idlestate.backends.run_codec import RunError, decode_run, encode_run
from idlestate.backends.runs import Next, Runs
from idlestate.backends.schema import TableSchema
from idlestate.backends.sidecar.errors import DamagedError
from idlestate.backends.sidecar.shard_record import (
    ShardRecord,
    StoredRun,
    StoredRuns,
    segment_key,
)
from idlestate.backends.sidecar.store import Store
from idlestate.backends.spec import TableSpec
from idlestate.backends.table import Outcome, Table
from idlestate.retention.policy import Policy


@dataclass(frozen=True, slots=True)
class Written:
    """What a step makes of a shard: its record, and the values to write."""

    record: ShardRecord
    values: dict[str, bytes]


class ShardTables:
    """The tables of one operator."""

    def __init__(self, store: Store, uid: str, spec: TableSpec, cache_bytes: int) -> None:
        """Nothing is read yet."""
        self._store = store
        self._uid = uid
        self._spec = spec
        self._cache_bytes = cache_bytes
        self._runs: OrderedDict[str, tuple[Run, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def table(self, record: ShardRecord, shard: int) -> Table:
        """The table of a shard's record.

        Raises:
            DamagedError: a run that it names is lost or damaged.
        """
        return Table(
            self._spec,
            self._read(record.current, shard, self._spec.schema),
            self._read(record.remembered, shard, ended.SCHEMA),
            record.seen,
        )

    def write(
        self, record: ShardRecord, shard: int, outcome: Outcome, policy: Policy, to_ms: int
    ) -> Written:
        """What an outcome makes of a record.

        Args:
            record: the one that the outcome's table was made of.
            shard: whose it is.
            outcome: what happened to it.
            policy: under which.
            to_ms: the time that it reached.
        """
        values: dict[str, bytes] = {}
        current, runs = self._encode(record.current, shard, outcome.current, values)
        remembered, _ = self._encode(record.remembered, shard, outcome.remembered, values)
        after = replace(
            record,
            current=current,
            remembered=remembered,
            tally=record.tally.plus(outcome.tally),
            time_ms=max(record.time_ms, to_ms),
            next_end_ms=runs.next_end_ms(policy),
            seen=outcome.seen,
        )
        return Written(after, values)

    def forget(self, runs: Iterable[str]) -> None:
        """Let go of runs that nobody will ask for again."""
        with self._lock:
            for name in runs:
                _, size = self._runs.pop(name, (None, 0))
                self._bytes -= size

    def _encode(
        self, before: StoredRuns, shard: int, following: Next, values: dict[str, bytes]
    ) -> tuple[StoredRuns, Runs]:
        schema = following.before.schema
        stay = len(before.runs) - following.taken
        name, size = uuid4().hex, 0
        parts: list[Run] = []
        for segment in following.segments() if following.writes else ():
            sink = pa.BufferOutputStream()
            encode_run([segment], schema, following.policy, sink)
            value = bytes(sink.getvalue())
            values[segment_key(self._uid, shard, name, len(parts))] = value
            parts.append(_decode(value, schema, following.batch_id))
            size += len(value)
        run: Run | None = None
        written: tuple[StoredRun, ...] = ()
        if parts:
            run = _joined(parts)
            stored = StoredRun(name, following.batch_id, len(parts), len(run), size)
            written = (stored,)
            self._keep(name, run, size)
        runs = following.with_run(run)
        return StoredRuns(before.runs[:stay] + written, runs.sweeps, runs.live), runs

    def _read(self, stored: StoredRuns, shard: int, schema: TableSchema) -> Runs:
        runs = tuple(self._run(each, shard, schema) for each in stored.runs)
        return Runs(schema, runs, stored.sweeps, stored.live)

    def _run(self, stored: StoredRun, shard: int, schema: TableSchema) -> Run:
        with self._lock:
            if stored.name in self._runs:
                self._runs.move_to_end(stored.name)
                return self._runs[stored.name][0]
        parts = []
        for key in stored.segment_keys(self._uid, shard):
            value = self._store.get(key)
            if value is None:
                raise DamagedError(f"{key} is missing: bring the sidecar's folder back from a copy")
            try:
                parts.append(_decode(value, schema, stored.version))
            except RunError as error:
                raise DamagedError(f"{key}: {error}") from error
        run = _joined(parts)
        self._keep(stored.name, run, stored.bytes)
        return run

    def _keep(self, name: str, run: Run, size: int) -> None:
        with self._lock:
            _, before = self._runs.pop(name, (None, 0))  # two may have read it at once
            self._runs[name] = (run, size)
            self._bytes += size - before
            while self._bytes > self._cache_bytes and len(self._runs) > 1:
                _, (_, freed) = self._runs.popitem(last=False)
                self._bytes -= freed


def _decode(value: bytes, schema: TableSchema, version: int) -> Run:
    return decode_run(Whole(pa.py_buffer(value)), schema, version)


def _joined(parts: list[Run]) -> Run:
    segments = tuple(segment for part in parts for segment in part.segments)
    return Run(segments, parts[0].policy, parts[0].batch_id)

"""One-way writes of anybody: numbered by their writer, each counted once.

A write is applied at once unless a batch of the owner query is open: then it waits, durable, in
the inbox `i/<uid>/<number>` until the batch border, where all that wait are applied in order
before the next batch opens. The highest number of each writer stands under `w/<uid>/<writer>` and
is written with the write itself.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from idlestate.backends.ranges import shard_bounds
from idlestate.backends.sidecar.declaration import check_name
from idlestate.backends.sidecar.edits import KINDS, edit_steps, edited
from idlestate.backends.sidecar.errors import BusyError, DoesNotFitError
from idlestate.backends.sidecar.message import Message
from idlestate.backends.sidecar.operator_state import OperatorState
from idlestate.backends.sums import SumOverflowError

MAX_WRITERS = 10_000
_log = logging.getLogger("idlestate")
MAX_WAITING_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Write:
    """What a writer asks for: rows as an Arrow stream, or of keys alone."""

    writer: str
    seq: int
    kind: str
    rows: bytes


class DirectWrites:
    """The writers of one operator."""

    def __init__(self, state: OperatorState) -> None:
        """Read what was written."""
        self._state = state
        self._last = {
            key.rpartition("/")[2]: int(value) for key, value in state.store.scan(f"w/{state.uid}/")
        }
        self.waiting = {key: len(value) for key, value in state.store.scan(f"i/{state.uid}/")}
        """Bytes by key of the writes that wait for a batch border."""

    def last(self, writer: str) -> int:
        """The highest number taken from a writer; -1 for one that is not known."""
        return self._last.get(writer, -1)

    def take(self, write: Write, now_ms: int) -> bool:
        """Take a write; False when it had been taken before.

        Raises:
            DoesNotFitError: it cannot be applied to this operator, ever.
            BusyError: too much waits for the batch that is open.
        """
        check_name("writer", write.writer)
        if write.kind not in KINDS:
            raise DoesNotFitError(f"there is no write {write.kind!r}; there are {', '.join(KINDS)}")
        if self._state.is_event_time:
            raise DoesNotFitError(
                f"operator {self._state.uid!r} goes by event time, and only its query knows how "
                "far that is; write to one with time: processing"
            )
        rows = self._read(write)
        with self._state.lock:
            if write.seq <= self.last(write.writer):
                return False
            if write.writer not in self._last and len(self._last) >= MAX_WRITERS:
                raise DoesNotFitError(
                    f"operator {self._state.uid!r} has {MAX_WRITERS} writers; let them keep their "
                    "names from one start to the next"
                )
            if self._state.record.open is None:
                self.drain()
                self._apply(write, rows, now_ms, {})
            else:
                self._put_by(write, now_ms)
            self._last[write.writer] = write.seq
        return True

    def drain(self) -> None:
        """Apply what waits, in order; under the lock, at a batch border."""
        for key in sorted(self.waiting):
            value = self._state.store.get(key)
            assert value is not None
            message = Message.decode(value)
            header = message.header
            write = Write(header["writer"], header["seq"], header["kind"], message.parts[0])
            try:
                self._apply(write, self._read(write), header["t_ms"], {key: None})
            except DoesNotFitError:
                # It fitted when it was taken, and the batch has changed what it meets: a sum that
                # leaves its type now. Nobody waits for an answer, and the query must go on.
                _log.exception("write %d of writer %s is dropped", write.seq, write.writer)
                self._state.save(self._state.record, removed=[key])
            del self.waiting[key]

    def _put_by(self, write: Write, now_ms: int) -> None:
        record = self._state.record
        assert record.open is not None
        if sum(self.waiting.values()) + len(write.rows) > MAX_WAITING_BYTES:
            raise BusyError(
                f"operator {self._state.uid!r}: {MAX_WAITING_BYTES >> 20} MB of writes wait for "
                f"batch {record.open.batch_id} of its query to be committed; is the query running?"
            )
        header = {"writer": write.writer, "seq": write.seq, "kind": write.kind, "t_ms": now_ms}
        value = Message(header, (write.rows,)).encode()
        key = f"i/{self._state.uid}/{record.next_entry:020}"
        after = replace(record, next_entry=record.next_entry + 1)
        self._state.save(after, values={key: value, **self._mark(write)})
        self.waiting[key] = len(value)

    def _apply(
        self, write: Write, rows: pa.Table, now_ms: int, removed: Mapping[str, None]
    ) -> None:
        state, record = self._state, self._state.record
        t_ms = max(now_ms, record.time_ms)
        spec, policy, version = state.spec, record.policy, record.version + 1
        columns = {name: rows.column(name).combine_chunks() for name in rows.column_names}
        keys = [columns[name] for name in spec.key_names]
        steps = edit_steps(spec, write.kind, keys, columns, t_ms)
        bounds = shard_bounds(steps.hashes, len(state.shards)).tolist()
        stepped = {}
        for at, shard in enumerate(state.shards):
            if bounds[at] == bounds[at + 1]:
                continue
            part = steps.slice(bounds[at], bounds[at + 1])
            try:
                outcome = edited(state.tables.table(shard), write.kind, part, policy, t_ms, version)
            except SumOverflowError as error:
                raise DoesNotFitError(f"operator {state.uid!r}: {error}") from error
            stepped[at] = state.stepped(shard, outcome, policy, t_ms, record.committed)
        values = self._mark(write)
        for each in stepped.values():
            values.update(each.values)
        state.save(
            replace(record, version=version, time_ms=t_ms),
            {at: each.shard for at, each in stepped.items()},
            values,
            removed,
            [staged for each in stepped.values() for staged in each.expired],
        )

    def _mark(self, write: Write) -> dict[str, bytes]:
        return {f"w/{self._state.uid}/{write.writer}": str(write.seq).encode()}

    def _read(self, write: Write) -> pa.Table:
        """The rows of a write in the types of the operator.

        Raises:
            DoesNotFitError: they lack a column or are of another type.
        """
        state = self._state
        wanted = dict(state.spec.keys)
        if write.kind in ("add", "put"):
            wanted = {field.name: field.type for field in state.record.declaration.inputs()}
        return read_rows(state.uid, write.rows, wanted)


def read_rows(uid: str, data: bytes, wanted: Mapping[str, pa.DataType]) -> pa.Table:
    """Rows of an Arrow stream with these columns and types.

    Raises:
        DoesNotFitError: it is none, lacks a column, or has another type.
    """
    try:
        rows = pa.ipc.open_stream(data).read_all()
        rows.validate(full=True)
        missing = [name for name in wanted if name not in rows.column_names]
        if missing:
            raise DoesNotFitError(
                f"operator {uid!r}: the rows have no column {', '.join(missing)}; it takes "
                f"{', '.join(f'{name} {kind}' for name, kind in wanted.items())}"
            )
        return rows.select(list(wanted)).cast(pa.schema(wanted))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DoesNotFitError(f"operator {uid!r}: rows that cannot be used: {error}") from error

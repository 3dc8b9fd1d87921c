"""One-way writes of anybody: numbered by their writer, each counted once.

A write is applied at once unless a batch of the owner query is open: then it waits, durable, in
the inbox `i/<uid>/<number>` until the batch border, where all that wait are applied in order
before the next batch opens. The highest number of each writer, and when it came, stand under
`w/<uid>/<writer>` and are written with the write itself. Where there are too many writers, the one
that has been silent for longest is forgotten, if that is long enough: nobody sends such an old
write again.

A write that fitted when it was taken may fit no more at the border, since the batch has changed
what it meets: a sum that leaves its type now. It was acknowledged, nobody waits for an answer, and
the query must go on: so it is set aside with the reason (`set_aside`), counted, and shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from idlestate.backends.sidecar.declaration import check_name
from idlestate.backends.sidecar.edits import KINDS
from idlestate.backends.sidecar.errors import BusyError, DoesNotFitError
from idlestate.backends.sidecar.message import Message
from idlestate.backends.sidecar.operator_state import OperatorState
from idlestate.backends.sidecar.set_aside import SetAside
from idlestate.backends.sidecar.work import Edit, Given, Going

MAX_WRITERS = 10_000
MAX_WAITING_BYTES = 256 << 20
_SILENT_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Write:
    """What a writer asks for: rows, or of keys alone."""

    writer: str
    seq: int
    kind: str
    given: Given


class DirectWrites:
    """The writers of one operator."""

    def __init__(self, state: OperatorState) -> None:
        """Read what was written."""
        self._state = state
        self._last: dict[str, tuple[int, int]] = {}
        self._under_way: list[str] = []
        """The writers of calls that are being answered."""
        for key, value in state.store.scan(f"w/{state.uid}/"):
            seq, _, at_ms = value.partition(b" ")
            self._last[key.rpartition("/")[2]] = (int(seq), int(at_ms or 0))
        self.set_aside = SetAside(state.store, state.uid)

    def last(self, writer: str) -> int:
        """The highest number taken from a writer; -1 for one that is not known.

        Raises:
            BusyError: a write of it is under way, as of a process that was killed: it may take the
                next number, and another write under that would not count.
        """
        if writer in self._under_way:
            raise BusyError(
                f"operator {self._state.uid!r}: a write of {writer[:80]} is still being taken; if "
                "that lasts, another program writes under this name too: give this one its own"
            )
        return self._highest(writer)

    def take(self, write: Write, now_ms: int) -> bool:
        """Take a write; False when it had been taken before.

        Raises:
            DoesNotFitError: it cannot be applied to this operator, ever.
            GoneError: its rows are not where they were handed over: hand them over again.
            BusyError: too much waits for the batch that is open.
        """
        check_name("writer", write.writer)
        self._under_way.append(write.writer)
        try:
            return self._take(write, now_ms)
        finally:
            self._under_way.remove(write.writer)

    def _highest(self, writer: str) -> int:
        return self._last.get(writer, (-1, 0))[0]

    def _take(self, write: Write, now_ms: int) -> bool:
        if write.kind not in KINDS:
            raise DoesNotFitError(f"there is no write {write.kind!r}; there are {', '.join(KINDS)}")
        if self._state.is_event_time:
            raise DoesNotFitError(
                f"operator {self._state.uid!r} goes by event time, and only its query knows how "
                "far that is; write to one with time: processing"
            )
        if write.seq <= self._highest(write.writer):
            return False
        edit = self._state.work.edit(write.kind, write.given)
        with self._state.lock:
            if write.seq <= self._highest(write.writer):
                return False
            forgotten = self._room_for(write.writer, now_ms)
            marks = {self._key(write.writer): f"{write.seq} {now_ms}".encode()}
            gone = {self._key(writer): None for writer in forgotten}
            if self._state.record.open is None:
                self.drain()
                self._apply(edit, now_ms, marks, gone)
            else:
                self._put_by(write, edit.rows(), now_ms, marks, gone)
            self._last[write.writer] = (write.seq, now_ms)
            for writer in forgotten:
                del self._last[writer]
        return True

    def drain(self) -> None:
        """Apply what waits, in order; under the lock, at a batch border."""
        for key in sorted(self._state.waiting):
            value = self._state.store.get(key)
            assert value is not None
            message = Message.decode(value)
            header = message.header
            try:
                edit = self._state.work.edit(header["kind"], Given(message.parts[0]))
                self._apply(edit, header["t_ms"], {}, {key: None})
            except DoesNotFitError as error:
                self.set_aside.add(self._state, key, message, str(error))
            del self._state.waiting[key]

    def _room_for(self, writer: str, now_ms: int) -> list[str]:
        """Who is to be forgotten so that there is room for a writer."""
        if writer in self._last or len(self._last) < MAX_WRITERS:
            return []
        oldest = min(self._last, key=lambda each: self._last[each][1])
        if now_ms - self._last[oldest][1] < _SILENT_MS:
            raise DoesNotFitError(
                f"operator {self._state.uid!r} has {MAX_WRITERS} writers, all of the last day; let "
                "them keep their names from one start to the next"
            )
        return [oldest]

    def _put_by(
        self,
        write: Write,
        rows: bytes,
        now_ms: int,
        marks: Mapping[str, bytes],
        gone: Mapping[str, None],
    ) -> None:
        record = self._state.record
        assert record.open is not None
        if sum(self._state.waiting.values()) + len(rows) > MAX_WAITING_BYTES:
            raise BusyError(
                f"operator {self._state.uid!r}: {MAX_WAITING_BYTES >> 20} MB of writes wait for "
                f"batch {record.open.batch_id} of its query to be committed; is the query running?"
            )
        header = {"writer": write.writer, "seq": write.seq, "kind": write.kind, "t_ms": now_ms}
        value = Message(header, (rows,)).encode()
        key = f"i/{self._state.uid}/{record.next_entry:020}"
        after = replace(record, next_entry=record.next_entry + 1)
        self._state.save(after, values={key: value, **marks}, removed=gone)
        self._state.waiting[key] = len(value)

    def _apply(
        self, edit: Edit, now_ms: int, values: Mapping[str, bytes], removed: Mapping[str, None]
    ) -> None:
        state, record = self._state, self._state.record
        t_ms = max(now_ms, record.time_ms)
        version = record.version + 1
        going = Going(record.policy, t_ms, version, record.committed)
        stepped = edit.apply(dict(enumerate(state.shards)), going)
        changes = dict(values)
        for each in stepped.values():
            changes.update(each.values)
        state.save(
            replace(record, version=version, time_ms=t_ms),
            {at: each.shard for at, each in stepped.items()},
            changes,
            removed,
            [staged for each in stepped.values() for staged in each.expired],
        )

    def _key(self, writer: str) -> str:
        return f"w/{self._state.uid}/{writer}"

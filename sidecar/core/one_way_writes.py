"""One-way writes of any client: numbered by their writer, each counted once.

A write is applied at once, unless a batch of the owner query is open. Then it waits, durably
(`waiting_writes`). At the batch border, all waiting writes are applied in order before the next
batch opens. The state of the writer (`writer_sessions`) is stored together with the write.

A write that was valid when it was accepted may no longer be after the batch, for example because a
sum would now overflow. It was acknowledged, no client waits for an answer, and the query must
continue, so the write is quarantined with the reason, and counted.
"""

from dataclasses import dataclass, replace
from functools import partial

from idlestate.sidecar.core.operator_contents import OperatorContents
from idlestate.sidecar.core.quarantined_writes import QuarantinedWrites
from idlestate.sidecar.core.shard_executor import Edit, SentRows, StepParameters
from idlestate.sidecar.core.stored_message import stored_message
from idlestate.sidecar.core.table_edits import KINDS
from idlestate.sidecar.core.waiting_writes import keep_waiting
from idlestate.sidecar.core.writer_sessions import Writer, Writers
from idlestate.sidecar.protocol.declaration import check_name
from idlestate.sidecar.protocol.errors import DoesNotFitError
from idlestate.sidecar.protocol.input_rows import of_today
from idlestate.sidecar.stores.store import Changes


@dataclass(frozen=True, slots=True)
class Write:
    """A write request.

    Attributes:
        writer: its name.
        session: the claimed session.
        seq: its number; a duplicate unless it is higher than all before.
        write_id: the same if the same write is resent.
        kind: one of `KINDS`.
        sent: rows, or only keys.
    """

    writer: str
    session: str
    seq: int
    write_id: str
    kind: str
    sent: SentRows


class DirectWrites:
    """The writes of one operator.

    Attributes:
        quarantined: acknowledged writes that could not be applied.
        duplicates: the number of duplicates since the process started.
    """

    def __init__(self, state: OperatorContents) -> None:
        """Read the writers and quarantined writes from the store."""
        self._state = state
        self._writers = Writers(state.store, state.uid)
        self.quarantined = QuarantinedWrites(state.store, state.uid)
        self.duplicates = 0

    def claim(self, name: str, claim_id: str, now_ms: int) -> Writer:
        """Give a writer's name to a client; the previous holder is fenced from then on.

        Args:
            name: the writer.
            claim_id: chosen by the client; the same in a resent claim.
            now_ms: the time.

        Raises:
            DoesNotFitError: the operator takes no direct writes, or has too many writers.
        """
        check_name("writer", name)
        self._check_time()
        with self._state.lock:
            known = self._writers[name]
            after = known.claimed(claim_id, now_ms)
            if after != known:
                self._writers.save(name, after, self._state.write)
            return after

    def take(self, write: Write, now_ms: int) -> bool:
        """Accept a write; False for a duplicate, which changes nothing.

        A write that is resent because its answer was lost gets the same answer.

        Raises:
            DoesNotFitError: it can never be applied to this operator.
            FencedError: a newer session holds the writer's name.
            GoneError: the rows that were handed over are gone: hand them over again.
            BusyError: too many writes wait for the open batch.
        """
        check_name("writer", write.writer)
        if write.kind not in KINDS:
            raise DoesNotFitError(f"unknown write {write.kind!r}; use one of {', '.join(KINDS)}")
        self._check_time()
        if write.seq <= self._writers.held(write.writer, write.session).seq:
            return self._known(write)
        executor = self._state.executor
        edit = executor.edit(write.kind, write.sent)
        with self._state.lock:
            if executor is not self._state.executor:  # the definition changed in the meantime
                edit = self._state.executor.edit(write.kind, write.sent)
            writer = self._writers.held(write.writer, write.session)
            if write.seq <= writer.seq:
                return self._known(write)
            after = Writer(write.seq, now_ms, write.session, write.write_id)
            if self._state.record.open is None:
                self.drain()
                keep = partial(self._apply, edit, now_ms)
            else:
                header = {
                    "writer": write.writer,
                    "seq": write.seq,
                    "kind": write.kind,
                    "t_ms": now_ms,
                }
                keep = partial(keep_waiting, self._state, header, edit.rows())
            self._writers.save(write.writer, after, keep)
        return True

    def _check_time(self) -> None:
        if self._state.is_event_time:
            raise DoesNotFitError(
                f"operator {self._state.uid!r} uses event time, and only its query knows how "
                "far that is; write to one with time: processing"
            )

    def _known(self, write: Write) -> bool:
        """Whether a write with a used number is the very write that used it."""
        writer = self._writers[write.writer]
        if (write.seq, write.write_id) == (writer.seq, writer.write_id):
            return True
        with self._state.lock:
            self.duplicates += 1
        return False

    def drain(self) -> None:
        """Apply the waiting writes in order; under the lock, at a batch border."""
        for key in sorted(self._state.waiting):
            value = self._state.store.get(key)
            assert value is not None
            message = stored_message(key, value)
            header = message.header
            try:
                kind, declaration = header["kind"], self._state.record.declaration
                rows = of_today(declaration, self._state.spec, kind, message.parts[0])
                edit = self._state.executor.edit(kind, SentRows(rows))
                self._apply(edit, header["t_ms"], {key: None})
            except DoesNotFitError as error:
                self.quarantined.add(self._state, key, message, str(error))
            del self._state.waiting[key]

    def _apply(self, edit: Edit, now_ms: int, changes: Changes) -> None:
        state, record = self._state, self._state.record
        t_ms = max(now_ms, record.time_ms)
        version = record.version + 1
        parameters = StepParameters(
            record.policy, t_ms, version, record.committed, state.clock.now_ms()
        )
        stepped = edit.apply(dict(enumerate(state.shards)), parameters)
        values = dict(changes)
        for each in stepped.values():
            values.update(each.values)
        state.save(
            replace(record, version=version, time_ms=t_ms),
            {at: each.shard for at, each in stepped.items()},
            values,
            expired=[staged for each in stepped.values() for staged in each.expired],
        )

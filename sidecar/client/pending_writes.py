"""The unacknowledged writes of one client: numbered, and resent in order."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pyarrow as pa

from idlestate.sidecar.protocol.connection import Connection
from idlestate.sidecar.protocol.errors import DoesNotFitError, SidecarError, WriterFencedError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.protocol.transfers import stream_of

Send = Callable[[Mapping[str, Any], pa.Table], Message]
"""Sends a write with this header and rows, and returns the sidecar's answer."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """A write that the sidecar acknowledged.

    Attributes:
        seq: its number under the writer's name.
        rows: its number of rows.
        is_duplicate: whether it changed nothing, since its number was not higher than the writer's
            highest. A write that the client resent because the answer was lost is not a duplicate.
    """

    seq: int
    rows: int
    is_duplicate: bool


@dataclass(slots=True)
class _Pending:
    kind: str
    rows: pa.Table
    seq: int | None
    write_id: str = field(default_factory=lambda: uuid4().hex)
    is_copy: bool = False

    def keep(self) -> None:
        """Copy the rows: a resent write has the original rows, even if the caller has changed its
        own.
        """
        if not self.is_copy:
            self.rows = pa.ipc.open_stream(stream_of(self.rows)).read_all()
            self.is_copy = True


class PendingWrites:
    """Sends writes in order, one at a time; threads may share it.

    Args:
        connection: to the sidecar.
        uid: the operator.
        writer: the writer's name.
        send: sends one.
    """

    def __init__(self, connection: Connection, uid: str, writer: str, send: Send) -> None:
        self._connection = connection
        self._facts = {"uid": uid, "writer": writer}
        self._send = send
        self._session: str | None = None
        self._next_seq = 0
        self._pending: list[_Pending] = []
        self._fenced: str | None = None
        self._turn = threading.Lock()
        """Held while sending: numbers increase, and each thread gets its own answer."""

    def write(self, kind: str, rows: pa.Table, seq: int | None) -> WriteResult:
        """Send the pending writes, then this one. A pending write with the same number is sent
        instead of it.

        Raises:
            FencedError: a newer client holds the writer's name.
            SidecarError: see `SidecarClient`.
        """
        with self._turn:
            self._check_fence()
            if seq is None or all(each.seq != seq for each in self._pending):
                self._pending.append(_Pending(kind, rows, seq))
            results = self._send_all()
            return next((each for each in results if each.seq == seq), results[-1])

    def retry(self) -> list[WriteResult]:
        """Send the pending writes. Raises the errors of `write`."""
        with self._turn:
            self._check_fence()
            return self._send_all()

    def _check_fence(self) -> None:
        if self._fenced is not None:
            raise WriterFencedError(self._fenced)

    def _send_all(self) -> list[WriteResult]:
        results = []
        while self._pending:
            first = self._pending[0]
            try:
                results.append(self._send_one(first))
            except DoesNotFitError as error:
                del self._pending[0]  # it will never be counted
                if not self._pending:
                    raise
                raise DoesNotFitError(
                    f"an earlier write ({first.kind} of {first.rows.num_rows} rows) is refused: "
                    f"{error}; {len(self._pending)} after it are still to be sent: retry()"
                ) from error
            except WriterFencedError as error:
                self._fenced = (
                    f"{error}. Writes that this client did not see acknowledged "
                    f"({len(self._pending)}) may be missing"
                )
                self._pending.clear()
                raise WriterFencedError(self._fenced) from error
            except SidecarError:
                for each in self._pending:
                    each.keep()
                raise
            del self._pending[0]
        return results

    def _send_one(self, write: _Pending) -> WriteResult:
        if self._session is None:
            claim = self._facts | {"claim_id": uuid4().hex}
            held = self._connection.call("claim", claim).header
            self._session, self._next_seq = held["session"], held["seq"] + 1
        if write.seq is None:
            write.seq = self._next_seq
        self._next_seq = max(self._next_seq, write.seq + 1)
        facts = {"session": self._session, "seq": write.seq, "write_id": write.write_id}
        header = {**self._facts, **facts, "kind": write.kind}
        is_applied = self._send(header, write.rows).header["is_applied"]
        return WriteResult(write.seq, write.rows.num_rows, not is_applied)

"""The sidecar as a Python program sees it that is no Spark job."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeAlias
from uuid import uuid4

import pyarrow as pa

from idlestate.backends.aggregates import bind
from idlestate.backends.sidecar.connection import PATIENCE_S, Address
from idlestate.backends.sidecar.declaration import Declaration
from idlestate.backends.sidecar.errors import (
    AwayError,
    DoesNotFitError,
    GoneError,
    SidecarError,
)
from idlestate.backends.sidecar.expired_log import numbers_of
from idlestate.backends.sidecar.given_rows import fit_rows, wanted_columns
from idlestate.backends.sidecar.routes import Routes
from idlestate.backends.sidecar.split import split_rows
from idlestate.backends.sidecar.stage import in_chunks, stream_of
from idlestate.backends.steps import TableSpec
from idlestate.retention.policy import Policy

Rows: TypeAlias = pa.Table | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
"""Rows as an Arrow table, as columns by name, or as dicts."""
DEFAULT_SHARDS = 4
_EXPIRED_PER_CALL = 50_000
_LARGE_BYTES = 1 << 17
"""Writes of less go through the sidecar's own process, which costs fewer calls."""
_TRIES = 5


class SidecarClient:
    """Reads and writes an operator of a sidecar; use it in a `with` statement, or close it.

    Writes are numbered under the writer's name and count once however often they are sent. A
    writer that keeps its name goes on with its numbers after a restart; a write that raised may
    have been counted or not, and `retry` sends it again under its own number.

    Args:
        place: `unix:PATH`, `HOST:PORT`, or an `Address` with token or certificates.
        uid: the operator.
        writer: this writer's name, one per writer at a time; one of its own by default.
        patience_s: how long a call waits for a sidecar that is away or busy.

    Raises:
        SidecarError: every call raises it or one of its kinds; the text says what to change.
    """

    def __init__(
        self,
        place: str | Address,
        uid: str,
        *,
        writer: str | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        address = place if isinstance(place, Address) else Address(place)
        self._routes = Routes(address, patience_s)
        self._connection = self._routes.main
        self._declaration: Declaration | None = None
        self._uid = uid
        self._writer = writer or uuid4().hex
        self._next_seq: int | None = None
        self._unsure: list[tuple[int, str, pa.Table]] = []

    def declare(
        self,
        *,
        key: Mapping[str, pa.DataType],
        aggregates: Mapping[str, str],
        policy: Policy,
        columns: Mapping[str, pa.DataType] | None = None,
        shards: int = DEFAULT_SHARDS,
    ) -> None:
        """Make the operator, unless the same is there: then the policy that it has goes on
        holding, which the sidecar's file or the owner query changes.

        Args:
            key: key columns and their types.
            aggregates: result name to aggregate, as of `retain`.
            policy: its retention; in processing time unless a query will own it.
            columns: the columns that aggregates read, and their types.
            shards: parts of its state, fixed for good.
        """
        types = {**key, **(columns or {})}
        spec = TableSpec(tuple(key.items()), bind(aggregates, types))
        declaration = Declaration.of(self._uid, spec, policy.time, shards)
        self._connection.call(
            "declare", {"declaration": declaration.to_json(), "policy": policy.to_json()}
        )

    def add_many(self, rows: Rows) -> None:
        """Take rows into the aggregates of their keys, all at once or not at all."""
        self._write("add", rows)

    def put_many(self, rows: Rows) -> None:
        """Let each key's aggregates be those of its last row here; its life goes on."""
        self._write("put", rows)

    def touch(self, keys: Rows) -> None:
        """Count as a write of these keys that changes no value; keys without a life get none."""
        self._write("touch", keys)

    def remove_many(self, keys: Rows) -> None:
        """Remove keys at once, without an expired record."""
        self._write("remove", keys)

    def retry(self) -> None:
        """Send again what was not answered, each under its own number."""
        while self._unsure:
            seq, kind, rows = self._unsure[0]
            try:
                self._send(seq, kind, rows)
            except DoesNotFitError:
                self._unsure.pop(0)  # it will never be counted
                raise
            except SidecarError:
                # What is sent again are the rows as they were, whatever becomes of the caller's.
                self._unsure[0] = (seq, kind, pa.ipc.open_stream(stream_of(rows)).read_all())
                raise
            self._unsure.pop(0)

    def get_many(self, keys: Rows) -> pa.Table:
        """The open lives of keys: keys, aggregates and times, as of `read_state`.

        A look is no access. The schema's metadata `batch_id` says which batch of the owner query
        was the last to count.
        """
        found = []
        batch_id = -1
        for part in in_chunks(_table(keys)):
            answer = self._connection.call("get", {"uid": self._uid}, part)
            found.append(pa.ipc.open_stream(answer.parts[0]).read_all())
            batch_id = answer.header["batch_id"]
        lives = pa.concat_tables(found)
        return lives.replace_schema_metadata({"batch_id": str(batch_id)})

    def expired(self, since: int = 0) -> Iterator[pa.Table]:
        """Expired records from a number on, in order, a table at a time.

        Each has its number in the last column, `seq`; go on from the last one's number plus one.
        """
        while True:
            header = {"uid": self._uid, "since": since, "most": _EXPIRED_PER_CALL}
            answer = self._connection.call("expired", header)
            if not answer.parts:
                return
            rows = pa.ipc.open_stream(answer.parts[0]).read_all()
            since = numbers_of(rows)[-1].as_py() + 1
            yield rows

    def set_aside(self) -> list[tuple[dict[str, Any], pa.Table]]:
        """Writes of anybody that were acknowledged while a batch was open and could not be applied
        at its border: writer, its number `seq`, `kind`, time `t_ms` and `reason`, with their rows.
        """
        found: list[tuple[dict[str, Any], pa.Table]] = []
        since = 0
        while True:
            answer = self._connection.call("set_aside", {"uid": self._uid, "since": since})
            if not answer.parts:
                return found
            for facts, rows in zip(answer.header["writes"], answer.parts, strict=True):
                found.append((facts, pa.ipc.open_stream(rows).read_all()))
                since = facts["number"] + 1

    def acknowledge(self, consumer: str, upto: int) -> None:
        """Say that a consumer has all expired records below a number.

        Records are kept until every consumer that ever spoke has them, or for the sidecar's
        `expired_retention`.
        """
        self._connection.call("acknowledge", {"uid": self._uid, "consumer": consumer, "upto": upto})

    def close(self) -> None:
        """Give the connections back."""
        self._routes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, kind: str, rows: Rows) -> None:
        self.retry()
        if self._next_seq is None:
            header = {"uid": self._uid, "writer": self._writer}
            self._next_seq = self._connection.call("last", header).header["seq"] + 1
        self._unsure.append((self._next_seq, kind, _table(rows)))
        self._next_seq += 1
        self.retry()

    def _send(self, seq: int, kind: str, rows: pa.Table) -> None:
        header = {"uid": self._uid, "writer": self._writer, "seq": seq, "kind": kind}
        if rows.nbytes < _LARGE_BYTES:
            self._connection.call("write", header, stream_of(rows))
            return
        for left in reversed(range(_TRIES)):
            try:
                self._send_large(header, rows)
                return
            except GoneError:  # a worker was started again
                if not left:
                    raise
            except AwayError:
                if not left or not self._routes.have_moved():
                    raise
            self._declaration = None

    def _send_large(self, header: Mapping[str, Any], rows: pa.Table) -> None:
        """Hand each range its rows, past the one process that says what counts."""
        if self._declaration is None:
            self._routes.ask()
            facts = self._connection.call("describe", {"uid": self._uid}).header
            self._declaration = Declaration.from_json(facts["declaration"])
        routes, declaration = self._routes, self._declaration
        if len(routes) == 1:
            self._connection.call("write", header, stream_of(rows))
            return
        spec = declaration.spec()
        wanted = wanted_columns(declaration, spec, header["kind"])
        fitting = fit_rows(self._uid, rows, wanted)
        parts = split_rows(fitting, spec.key_names, declaration.shards, len(routes))
        handle = uuid4().hex
        for at, mine in parts.items():
            chunk = {"handle": handle, "at": [0, 0, 0], "is_first": True}
            routes.to_range(at).call("chunk", chunk, stream_of(mine))
        handed = {"handle": handle, "ranges": list(parts), "of": len(routes)}
        self._connection.call("write", {**header, "handed": handed})
        with suppress(SidecarError):  # it counts; what is handed over is dropped in time
            for at in parts:
                routes.to_range(at).call("close", {"handle": handle})


def _table(rows: Rows) -> pa.Table:
    if isinstance(rows, Mapping):
        return pa.table(dict(rows))
    return pa.Table.from_pylist(list(rows)) if isinstance(rows, Sequence) else rows

"""The client of a sidecar for Python programs other than Spark jobs."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.runs.keys import find_distinct
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.durations import Duration, duration_ms
from idlestate.retention.policy import Policy
from idlestate.sidecar.client.asked_order import as_asked
from idlestate.sidecar.client.pending_writes import PendingWrites, WriteResult
from idlestate.sidecar.core.expired_log import numbers_of
from idlestate.sidecar.protocol.connection import Address
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import (
    AwayError,
    DoesNotFitError,
    GoneError,
    SidecarError,
)
from idlestate.sidecar.protocol.input_rows import (
    Rows,
    check_count,
    fit_rows,
    fit_write,
    table_of,
)
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.protocol.retries import CONNECT_TIMEOUT_S, PATIENCE_S
from idlestate.sidecar.protocol.routes import Routes
from idlestate.sidecar.protocol.rows_by_range import split_rows
from idlestate.sidecar.protocol.transfers import in_chunks, stream_of

DEFAULT_SHARDS = 4
_EXPIRED_PER_CALL = 50_000
_LARGE_BYTES = 1 << 17
"""A smaller write goes through the sidecar's own process unchanged, which costs fewer calls."""
_TRIES = 5


class SidecarClient:
    """Reads and writes an operator of a sidecar. Use it in a `with` statement, or close it.

    Threads may share a client; their writes are sent one after the other.

    Writes are numbered under the writer's name and count once, however often they are sent. Each
    returns a `WriteResult`. If a write raises an error, it may or may not have been applied. Unless
    it was rejected (`DoesNotFitError`), the client sends it again under the same number, before the
    next write or by `retry`.

    Only one client at a time holds a writer's name. The first write of a client takes over the
    name and continues its numbers; all later writes of the previous holder raise `FencedError`.

    If your program replays its input after a crash, pass the position of each write in it, such as
    a topic's offset, as `seq`: `add_many(rows, seq=offset)`. A write whose `seq` is not higher than
    all before it under this name is a duplicate and changes nothing.

    Args:
        place: `unix:PATH`, `HOST:PORT`, or an `Address` with a token or certificates.
        uid: the operator.
        writer: this writer's name; default: a new, unique name.
        patience: how long a call waits for an unavailable or busy sidecar, such as `2m`, or a
            timedelta.
        connect_timeout: how long a call waits for an address that has never answered.

    Raises:
        SidecarError: a subclass, by every call; each is of one of the kinds in `idlestate.errors`.
    """

    def __init__(
        self,
        place: str | Address,
        uid: str,
        *,
        writer: str | None = None,
        patience: Duration = timedelta(seconds=PATIENCE_S),
        connect_timeout: Duration = timedelta(seconds=CONNECT_TIMEOUT_S),
    ) -> None:
        address = place if isinstance(place, Address) else Address(place)
        self._routes = Routes(
            address,
            duration_ms(patience) / 1000,
            connect_timeout_s=duration_ms(connect_timeout) / 1000,
        )
        self._connection = self._routes.main
        self._declaration: Declaration | None = None
        self._uid = uid
        self._writes = PendingWrites(self._connection, uid, writer or uuid4().hex, self._send_write)

    def declare(
        self,
        *,
        key: Mapping[str, pa.DataType],
        aggregates: Mapping[str, str],
        policy: Policy,
        columns: Mapping[str, pa.DataType] | None = None,
        shards: int = DEFAULT_SHARDS,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        """Create the operator, or change the definition of an existing one. An existing operator
        keeps its policy; only the sidecar's file or the owner query changes that.

        Args:
            key: key columns and their types.
            aggregates: result name to aggregate, as for `retain`.
            policy: its retention policy, in processing time unless a query will own the operator.
            columns: the columns that aggregates read, and their types.
            shards: number of shards, which cannot change later.
            renamed: new to old names of aggregates, as for `retain`.

        Raises:
            DoesNotFitError: the new definition cannot take over the existing state.
        """
        types = {**key, **(columns or {})}
        spec = TableSpec(tuple(key.items()), aggregation(aggregates, types))
        declaration = Declaration.of(self._uid, spec, policy.time, shards, renamed)
        self._connection.call(
            "declare", {"declaration": declaration.to_json(), "policy": policy.to_json()}
        )

    def add_many(self, rows: Rows, *, seq: int | None = None) -> WriteResult:
        """Add rows to the aggregates of their keys, all of them or none."""
        return self._write("add", rows, seq)

    def put_many(self, rows: Rows, *, seq: int | None = None) -> WriteResult:
        """Replace each key's aggregates with those of its last row; its life continues."""
        return self._write("put", rows, seq)

    def touch(self, keys: Rows, *, seq: int | None = None) -> WriteResult:
        """Write to these keys without changing values; does not start new lives."""
        return self._write("touch", keys, seq)

    def remove_many(self, keys: Rows, *, seq: int | None = None) -> WriteResult:
        """Remove keys immediately, without an expired record."""
        return self._write("remove", keys, seq)

    def retry(self) -> list[WriteResult]:
        """Resend the writes that were not acknowledged, in order, each under its own number."""
        return self._writes.retry()

    def read_many(self, keys: Rows, *, seq: int | None = None) -> pa.Table:
        """Like `get_many`, but counts as a read: under `update: on_read_and_write` it extends the
        lives of these keys. Numbered and counted once, like a write.
        """
        rows = table_of(self._uid, keys)
        self._write("read", rows, seq)
        return self.get_many(rows)

    def get_many(self, keys: Rows) -> pa.Table:
        """Return the open lives of keys, one row per row of `keys`, in order: keys, aggregates and
        times, as in `read_state`. For a key without an open life, all other columns are null,
        including `created_at`, which is never null in an open life.

        A look-up does not extend a key's life. The schema's metadata `batch_id` is the newest
        committed batch of the owner query. If a look-up takes several calls because of its many
        keys, it is that of the first call.
        """
        asked = rows = table_of(self._uid, keys)
        if rows.nbytes >= _LARGE_BYTES:
            rows = self._distinct(rows)
        found = []
        batch_ids = []
        for part in in_chunks(rows):
            answer = self._connection.call("get", {"uid": self._uid}, part)
            found.append(pa.ipc.open_stream(answer.parts[0]).read_all())
            batch_ids.append(answer.header["batch_id"])
        lives = as_asked(self._uid, asked, answer.header["keys"], pa.concat_tables(found))
        return lives.replace_schema_metadata({"batch_id": str(batch_ids[0])})

    def expired(self, since: int = 0) -> Iterator[pa.Table]:
        """Iterate over expired records from a number on, in order, one table at a time.

        The last column, `seq`, is the record's number; continue from the last number plus one.
        """
        while True:
            header = {"uid": self._uid, "since": since, "most": _EXPIRED_PER_CALL}
            answer = self._connection.call("expired", header)
            if not answer.parts:
                return
            rows = pa.ipc.open_stream(answer.parts[0]).read_all()
            since = numbers_of(rows)[-1].as_py() + 1
            yield rows

    def quarantined(self) -> list[tuple[dict[str, Any], pa.Table]]:
        """Return the quarantined writes of all writers: writes acknowledged while a batch was open
        that could not be applied after it. Each has the writer, its number `seq`, `kind`, time
        `t_ms` and `reason`, with its rows.
        """
        found: list[tuple[dict[str, Any], pa.Table]] = []
        since = 0
        while True:
            answer = self._connection.call("quarantined", {"uid": self._uid, "since": since})
            if not answer.parts:
                return found
            for facts, rows in zip(answer.header["writes"], answer.parts, strict=True):
                found.append((facts, pa.ipc.open_stream(rows).read_all()))
                since = facts["number"] + 1

    def acknowledge(self, consumer: str, upto: int) -> None:
        """Acknowledge that a consumer has all expired records below a number.

        Records are kept until every registered consumer has acknowledged them, or for the
        sidecar's `expired_retention`.
        """
        self._connection.call("acknowledge", {"uid": self._uid, "consumer": consumer, "upto": upto})

    def close(self) -> None:
        """Close the connections."""
        self._routes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _write(self, kind: str, rows: Rows, seq: int | None) -> WriteResult:
        if seq is not None and (type(seq) is not int or seq < 0):
            raise DoesNotFitError(f"seq {seq!r} is not valid; pass an integer of 0 or more")
        return self._writes.write(kind, table_of(self._uid, rows), seq)

    def _send_write(self, header: Mapping[str, Any], rows: pa.Table) -> Message:
        if rows.nbytes < _LARGE_BYTES:
            return self._connection.call("write", header, stream_of(rows))
        for left in reversed(range(_TRIES)):
            is_known = self._declaration is not None
            try:
                return self._send_large(header, rows)
            except DoesNotFitError:  # the operator may have been created again with other columns
                if not is_known:
                    raise
            except GoneError:  # a worker was restarted
                if not left:
                    raise
            except AwayError:
                if not left or not self._routes.have_moved():
                    raise
            self._declaration = None
        raise AssertionError("the last try returns or raises")

    def _send_large(self, header: Mapping[str, Any], rows: pa.Table) -> Message:
        """Send each range its rows directly, without the process that coordinates writes."""
        if self._declaration is None:
            self._routes.ask()
            self._declaration = self._describe()
        routes, declaration = self._routes, self._declaration
        spec = declaration.spec()
        fitting = fit_write(declaration, spec, header["kind"], rows)
        if len(routes) == 1:
            return self._connection.call("write", header, stream_of(fitting))
        check_count(self._uid, len(fitting))  # each range sees only a part of them
        parts = split_rows(fitting, spec.key_names, declaration.shards, len(routes))
        handle = uuid4().hex
        for at, mine in parts.items():
            chunk = {"handle": handle, "at": [0, 0, 0], "is_first": True}
            routes.to_range(at).call("chunk", chunk, stream_of(mine))
        handed = {"handle": handle, "ranges": list(parts), "of": len(routes)}
        answer = self._connection.call("write", {**header, "handed": handed})
        with suppress(SidecarError):  # the write counts; the rows expire
            for at in parts:
                routes.to_range(at).call("close", {"handle": handle})
        return answer

    def _distinct(self, keys: pa.Table) -> pa.Table:
        """Each key once: a call may request its keys in several parts."""
        declaration = self._describe()
        names = declaration.keys
        fitting = fit_rows(self._uid, keys, dict(declaration.spec().keys))
        columns = [fitting.column(name).combine_chunks() for name in names]
        first = np.sort(find_distinct(hash_keys(columns), columns).first)
        return fitting.take(pa.array(first))

    def _describe(self) -> Declaration:
        facts = self._connection.call("describe", {"uid": self._uid}).header
        return Declaration.from_json(facts["declaration"])

"""A step of a sidecar's operator that the task executes itself, with the sidecar as store of runs.

This is for operators with their own step (`idlestate.backends.shards.operator_step`). A user's
function runs where Spark has shipped its code, never in the sidecar, which serves other operators
and programs too. The pairs of a join are created in the task that emits them, not sent to it.

The task reads the records of its shards and their runs, executes the same step as with Spark's own
store (`idlestate.backends.shards.shard_batch.advance`), and sends the new records and runs. The
sidecar prepares them like the results of its own steps. Runs never change, so a Python worker
caches those that it has read or written, up to a size limit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.operator_step import OperatorStep
from idlestate.backends.shards.row_counts import RowsByInput
from idlestate.backends.shards.shard_batch import advance
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import TimeDomain
from idlestate.retention.policy_version import PolicyVersion
from idlestate.sidecar.core.shard_tables import ShardTables
from idlestate.sidecar.protocol.routes import Routes
from idlestate.sidecar.protocol.sender import Sender

_CACHE_BYTES = 256 << 20
"""The cache size per operator, in each Python worker."""

Stepped = tuple[Iterable[bytes], list[Mapping[str, Any]], dict[str, dict[str, Any]]]
"""The cells of a step's change rows, which may be created lazily, what is shown of records on which
a function failed, and the figures of the shards after the step.
"""


class StepOnSidecarState:
    """The step of a task's shards.

    Args:
        routes: the sidecar.
        uid: the operator.
        table: the spec of its table.
        operator_step: its step.
        shards: its number of shards.
    """

    def __init__(
        self, routes: Routes, uid: str, table: TableSpec, operator_step: OperatorStep, shards: int
    ) -> None:
        self._routes = routes
        self._uid = uid
        self._table = table
        self._operator_step = operator_step
        self._shards = shards

    def run(
        self,
        opened: Mapping[str, Any],
        packets: Mapping[int, Sequence[bytes]],
        counts: Mapping[int, RowsByInput],
        times: BatchTimes,
        in_force: PolicyVersion,
    ) -> Stepped:
        """Execute the step, and have the sidecar prepare the result.

        Args:
            opened: the sidecar's answer to `open`.
            packets: the packets of each shard.
            counts: the rows counted by the packing tasks, per shard.
            times: the times of the batch.
            in_force: the policy in force for it.

        Raises:
            FunctionError: the function raised an error, or yielded what is not valid.
            GoneError: the sidecar has lost the exchange.
        """
        handle, t_ms, main = opened["handle"], opened["t_ms"], self._routes.main
        found = main.call("records", {"handle": handle})
        numbers = found.header["shards"]
        # The sidecar assigned the column numbers: it may be a batch ahead of the checkpoint.
        table = Definition.from_json(found.header["definition"]).spec(self._table.classes)
        tables = _tables_of(self._uid, table, self._routes)
        # The sidecar decides what the time of a batch is.
        judged = replace(times, watermark_ms=t_ms)
        if in_force.policy.time is TimeDomain.PROCESSING:
            judged = replace(judged, time_ms=t_ms)
        cells, records, keys = list[Iterable[bytes]](), list[bytes](), list[list[str]]()
        failed = list[Mapping[str, Any]]()
        sender = Sender(self._routes, handle, self._shards)
        for at, part in zip(numbers, found.parts, strict=True):
            place = tables.place(at)
            advanced = advance(
                table,
                ShardRecord.decode(part),
                place,
                packets.get(at, ()),
                counts.get(at, {}),
                judged,
                in_force,
                self._operator_step,
                version=opened["version"],
            )
            cells.append(advanced.cells)
            failed += advanced.failed
            # The sidecar removes the runs that no record names any more.
            records.append(replace(advanced.record, dropped=(), recent=()).encode())
            keys.append(list(place.values))
            for number, value in enumerate(place.values.values()):
                sender.send(at, number, value)
        ranges = sorted(sender.ranges)
        header = {"handle": handle, "shards": numbers, "keys": keys, "ranges": ranges}
        figures = main.call("take", header, *records).header["figures"]
        return chain.from_iterable(cells), failed, figures


class _Values:
    """The values of an operator's runs, read through the current connection."""

    def __init__(self, uid: str, routes: Routes) -> None:
        self._uid = uid
        self.routes = routes

    def get(self, key: str) -> bytes:
        """The value of a key."""
        parts, size = list[bytes](), 1
        while (begin := sum(map(len, parts))) < size:
            header = {"uid": self._uid, "key": key, "begin": begin}
            answer = self.routes.main.call("value", header)
            parts += answer.parts
            size = answer.header["size"]
        return b"".join(parts)


_kept: dict[str, tuple[TableSpec, _Values, ShardTables]] = {}
"""The tables of each operator of this Python worker, for its last definition."""


def _tables_of(uid: str, table: TableSpec, routes: Routes) -> ShardTables:
    kept = _kept.get(uid)
    if kept is None or kept[0] != table:
        values = _Values(uid, routes)
        kept = _kept[uid] = (table, values, ShardTables(values, uid, table, _CACHE_BYTES))
    kept[1].routes = routes
    return kept[2]

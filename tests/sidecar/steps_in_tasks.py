"""A sidecar whose steps are made by tasks: of functions and joins."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.operator_step import OperatorStep
from idlestate.backends.shards.row_counts import RowsByInput, total
from idlestate.backends.shards.shard_batch import Advanced
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.retention.policy import Policy
from idlestate.retention.policy_version import PolicyVersion
from idlestate.sidecar.client.step_on_sidecar_state import StepOnSidecarState
from idlestate.sidecar.core.data_calls import Calls
from idlestate.sidecar.core.local_placement import LocalPlacement
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.core.shard_placement import ShardPlacement
from idlestate.sidecar.protocol.call_table import CallTable, stage_calls
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.workers.worker_placement import WorkerPlacement
from idlestate.timers.clock import FakeClock
from idlestate.timers.steady_clock import SteadyClock
from tests.sidecar.sidecar_world import STORES, NearWorker

UID = "operator"


class Wire:
    """A connection to one process."""

    def __init__(self, table: CallTable) -> None:
        self._table = table

    def call(self, name: str, header: Any, *parts: bytes) -> Message:
        return Message.decode(self._table.answer(name, Message(header, parts).encode()))


def numbered_otherwise(declaration: Declaration) -> Declaration:
    """With other ids than the task has, as after changes that only the sidecar has seen."""
    definition = declaration.definition
    aggregates = tuple((name, text, number + 1) for name, text, number in definition.aggregates)
    definition = replace(definition, aggregates=aggregates, next_id=definition.next_id + 1)
    return replace(declaration, definition=definition)


class Sidecar:
    """A sidecar that makes the batches of a harness, and may die between a task and its commit."""

    def __init__(self, kind: str, folder: Path, policy: Policy, *, dies: bool) -> None:
        self.kind, _, self.spread = kind.partition(" in ")
        self.folder, self.policy, self.dies = folder, policy, dies
        self.clock, self.committed, self.attempts = FakeClock(0), set[int](), count()
        self.watermark_ms = 0
        self.open()

    def open(self) -> None:
        self.store = STORES[self.kind](self.folder)
        self.workers: list[NearWorker] = []
        self.placement: ShardPlacement = LocalPlacement(self.store, self.clock)
        if self.spread:
            self.workers = [
                NearWorker(self.kind, self.folder.with_name(f"{at}"), self.clock) for at in range(2)
            ]
            self.placement = WorkerPlacement(self.workers, [".0", ".1"], lambda: None, lambda: 0)
        self.host = Host(self.store, self.clock, self.reached_ms, self.placement)
        self.wire = Wire(Calls(self.host, SteadyClock(self.clock)).table)

    def close(self) -> None:
        self.store.close()
        for worker in self.workers:
            worker.store.close()

    def reached_ms(self, _checkpoint: str, batch_id: int) -> int | None:
        return self.watermark_ms if batch_id in self.committed else None

    def to_range(self, at: int) -> Wire:
        return Wire(CallTable(stage_calls(self.workers[at].stage))) if self.workers else self.wire

    def advance(
        self,
        table: Any,
        _record: ShardRecord,
        _runs: Any,
        packets: list[bytes],
        counts: RowsByInput,
        times: BatchTimes,
        in_force: PolicyVersion,
        operator_step: OperatorStep,
    ) -> Advanced:
        """In the place of `shard_batch.advance`."""
        if times.batch_id == 0:
            declaration = numbered_otherwise(Declaration.of(UID, table, self.policy.time, 1))
            operator = self.host.declare(declaration, self.policy, right=in_force.right)
            operator.batches.begin("query", "run", "checkpoint")
        operator = self.host[UID]
        operator.batches.settle()

        def exchange() -> list[Any]:
            attempt = {
                "query_id": "query",
                "run_id": "run",
                "execution_id": "execution",
                "batch_id": times.batch_id,
                "attempt": next(self.attempts),
                "partition": 0,
                "partitions": 1,
                "shards": [0],
                "time_ms": times.time_ms,
                "watermark_ms": times.watermark_ms,
                "policy": in_force.policy.to_json(),
                "right": in_force.right and in_force.right.to_json(),
            }
            opened = self.wire.call("open", {"uid": UID, "attempt": attempt}).header
            routes: Any = SimpleNamespace(
                main=self.wire, to_range=self.to_range, range_of=lambda *_: 0
            )
            step = StepOnSidecarState(routes, UID, table, operator_step, 1)
            cells, *made, figures = step.run(opened, {0: packets}, {0: counts}, times, in_force)
            assert (
                figures["0"]["input"] == operator.state.shards[0].rows.input + total(counts).input
            )
            return [[*cells], *made]

        made = exchange()
        if self.dies:
            self.close()
            self.open()
            operator = self.host[UID]
            assert exchange() == made
        self.committed.add(times.batch_id)
        self.watermark_ms = max(self.watermark_ms, times.watermark_ms)
        operator.batches.settle()
        assert not operator.sweeper.sweep(2**60, self.clock, 1000)
        assert not operator.sweeper.compact()
        return Advanced(operator.state.shards[0], *made)

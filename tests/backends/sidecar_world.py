"""A sidecar's operator with a query beside it that plans, runs, retries and commits batches.

No Spark, no network, no waiting: the query's commit log is a set, and a crash is a store that is
opened anew. Beside both runs the slow reference.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.aggregates import bind
from idlestate.backends.packet import encode_packet
from idlestate.backends.ranges import shard_bounds
from idlestate.backends.sidecar.batches import Attempt, Prepared
from idlestate.backends.sidecar.declaration import Declaration
from idlestate.backends.sidecar.direct import Write
from idlestate.backends.sidecar.heap_store import HeapStore
from idlestate.backends.sidecar.host import Host
from idlestate.backends.sidecar.operator import Operator
from idlestate.backends.sidecar.rocksdb_store import RocksDBStore
from idlestate.backends.sidecar.store import Store
from idlestate.backends.steps import Steps, TableSpec
from idlestate.retention.policy import TimeDomain
from idlestate.timers.clock import FakeClock
from tests.backends.law_runner import plain_rows, policy_of
from tests.compare import assert_rows, assert_states
from tests.reference import Record, Reference, Rule

TEXTS = {"n": "count", "total": "sum(v)", "top": "max(v)"}
KINDS = {"k": pa.string(), "v": pa.int64()}
SPEC = TableSpec(keys=(("k", pa.string()),), aggregates=bind(TEXTS, KINDS))
UID, QUERY, CHECKPOINT = "counts", "query-1", "somewhere"
SHARDS, PARTITIONS = 4, 2
RULE = Rule(idle_min_ms=100, idle_max_ms=150, remember_ms=10_000)
ORIGIN_MS = 1_000_000
STORES = {"heap": HeapStore, "rocksdb": RocksDBStore}
Pair = tuple[str, int | None]
"""A key and its value; None for a record that only looks."""


@dataclass(frozen=True)
class Planned:
    """A batch as the query's offset log has it."""

    batch_id: int
    pairs: tuple[Pair, ...]
    time_ms: int
    rule: Rule = RULE


class World:
    """The sidecar's operator, its query, and the reference."""

    def __init__(self, kind: str, folder: Path, rule: Rule = RULE) -> None:
        self.kind, self.folder, self.rule = kind, folder, rule
        self.clock = FakeClock(ORIGIN_MS)
        self.commits: set[int] = set()
        self.run_id = "run-0"
        self.executions = 0
        self.store: Store
        self.operator: Operator
        self.open()
        self.reference = Reference(rule, TEXTS)
        self.begin()

    # ---- the sidecar's process

    def open(self) -> None:
        self.store = STORES[self.kind](self.folder)
        host = Host(self.store, self.clock, lambda _, batch_id: batch_id in self.commits)
        declaration = Declaration.of(UID, SPEC, TimeDomain.PROCESSING, SHARDS)
        host.declare(declaration, policy_processing(self.rule))
        self.operator = host[UID]

    def crash(self) -> None:
        """The process dies and is started again: only what was written is left."""
        self.store.close()
        self.open()

    # ---- the query

    def begin(self, run_id: str | None = None, query_id: str = QUERY) -> None:
        self.run_id = run_id or self.run_id
        self.operator.batches.begin(query_id, self.run_id, CHECKPOINT)

    def attempt(self, planned: Planned, partition: int, execution: str, **other: Any) -> Attempt:
        facts: dict[str, Any] = {
            "query_id": QUERY,
            "run_id": self.run_id,
            "execution_id": execution,
            "batch_id": planned.batch_id,
            "attempt": 0,
            "partition": partition,
            "partitions": PARTITIONS,
            "shards": tuple(range(partition, SHARDS, PARTITIONS)),
            "time_ms": planned.time_ms,
            "watermark_ms": -1,
            "policy": policy_processing(planned.rule),
        }
        return Attempt(**facts | other)

    def task(self, planned: Planned, partition: int, execution: str, **other: Any) -> Prepared:
        """One task from end to end."""
        attempt = self.attempt(planned, partition, execution, **other)
        self.operator.batches.open(attempt)
        return self.prepare(planned, attempt)

    def prepare(self, planned: Planned, attempt: Attempt) -> Prepared:
        packets = packets_of(planned.pairs)
        mine = {at: [packets[at]] for at in attempt.shards}
        return self.operator.batches.prepare(attempt, mine, {})

    def run(self, planned: Planned, execution: str | None = None) -> list[dict[str, Any]]:
        """All tasks of a batch; the update rows."""
        if execution is None:
            self.executions += 1
            execution = f"execution-{self.executions}"
        done = [self.task(planned, partition, execution) for partition in range(PARTITIONS)]
        return [row for each in done for row in plain_rows(SPEC, each.updates)]

    def commit(self, planned: Planned) -> None:
        """Spark commits the batch; the reference takes it."""
        self.commits.add(planned.batch_id)
        self.take_in(planned)

    def take_in(self, planned: Planned) -> None:
        """What the batch means, to the reference."""
        if planned.rule != self.reference.rule:
            self.reference.change_rule(planned.rule)
        t_ms = max(planned.time_ms, self.judged_ms)
        self.reference.batch_id = planned.batch_id
        writes = [pair for pair in planned.pairs if pair[1] is not None]
        reads = [pair for pair in planned.pairs if pair[1] is None]
        for key, value in [*writes, *reads]:
            self.reference.take(Record((key,), t_ms, {"v": value}, read=value is None))
        self.reference.sweep(t_ms)
        self.judged_ms = t_ms

    judged_ms = 0
    """How far the reference has judged time."""

    # ---- others

    def write(self, writer: str, seq: int, kind: str, pairs: Sequence[Pair]) -> bool:
        rows = rows_of(pairs)
        return self.operator.writes.take(Write(writer, seq, kind, rows), self.clock.now_ms())

    def sweep(self) -> None:
        now_ms = self.clock.now_ms()
        assert not self.operator.sweeper.sweep(now_ms, self.clock, 1000)

    # ---- what is compared

    def lives(self) -> list[dict[str, Any]]:
        """Lives in the tables, those that ended and are not swept yet too."""
        found = []
        state = self.operator.state
        for shard in state.shards:
            table = state.tables.table(shard)
            found += plain_rows(SPEC, table.lives(state.record.policy))
        return found

    def expired(self) -> list[dict[str, Any]]:
        """Every expired record, by number."""
        table = self.operator.expired(0, None, 10**9)
        if table is None:
            return []
        numbers = table.column("seq").to_pylist()
        assert numbers == list(range(self.operator.record.next_seq)), "a number twice or none"
        return plain_rows(SPEC, table.drop_columns(["seq"]))

    def check(self) -> None:
        """Committed lives and expired records are the reference's."""
        assert_states(self.reference.states(), self.lives(), TEXTS)
        assert_rows(self.reference.expired, self.expired(), TEXTS)

    def copy_of_reference(self) -> Reference:
        return copy.deepcopy(self.reference)


def policy_processing(rule: Rule) -> Any:
    """The rule as a policy in processing time."""
    from dataclasses import replace

    return replace(policy_of(rule), time=TimeDomain.PROCESSING)


def packets_of(pairs: Sequence[Pair]) -> list[bytes]:
    """Records as the packing step hands them over: one packet per shard."""
    keys = [pa.array([key for key, _ in pairs], pa.string())]
    values = {"v": pa.array([value for _, value in pairs], pa.int64())}
    reads = np.array([value is None for _, value in pairs], dtype=bool)
    steps = Steps.from_records(
        SPEC, keys, np.zeros(len(pairs), dtype=np.int64), values, reads=reads
    )
    bounds = shard_bounds(steps.hashes, SHARDS).tolist()
    return [encode_packet(steps.slice(bounds[at], bounds[at + 1])) for at in range(SHARDS)]


def rows_of(pairs: Sequence[Pair]) -> bytes:
    """Rows as a client sends them."""
    table = pa.table(
        {
            "k": pa.array([key for key, _ in pairs], pa.string()),
            "v": pa.array([value for _, value in pairs], pa.int64()),
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())

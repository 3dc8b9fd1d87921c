"""A sidecar's operator with a query beside it that plans, runs, retries and commits batches.

No Spark, no network, no waiting: the query's commit log is a set, and a crash is a store that is
opened anew. Beside both runs the slow reference.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.packet_codec import encode_packet
from idlestate.backends.shards.row_counts import RowsByInput
from idlestate.backends.shards.shard_ranges import shard_bounds
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.sidecar.core.attempt import Attempt, Prepared
from idlestate.sidecar.core.local_placement import LocalPlacement
from idlestate.sidecar.core.one_way_writes import Write
from idlestate.sidecar.core.operator import Operator
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.core.shard_executor import SentRows, ShardExecutor
from idlestate.sidecar.core.shard_placement import ShardPlacement
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import BusyError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.protocol.transfers import Stage
from idlestate.sidecar.protocol.worker_ranges import range_of
from idlestate.sidecar.stores.heap_store import HeapStore
from idlestate.sidecar.stores.rocksdb_store import RocksDBStore
from idlestate.sidecar.stores.store import Store
from idlestate.sidecar.workers.worker_calls import WRITING, WorkerCalls
from idlestate.sidecar.workers.worker_placement import WorkerPlacement
from idlestate.timers.clock import FakeClock
from tests.backends.law_runner import plain_rows, policy_of
from tests.compare import assert_rows, assert_states
from tests.reference import Record, Reference, Rule

TEXTS = {"n": "count", "total": "sum(v)", "top": "max(v)"}
KINDS = {"k": pa.string(), "v": pa.int64()}
SPEC = TableSpec(keys=(("k", pa.string()),), kind=aggregation(TEXTS, KINDS))
UID, QUERY, CHECKPOINT = "counts", "query-1", "somewhere"
SHARDS, PARTITIONS = 4, 2
DECLARATION = Declaration.of(UID, SPEC, TimeDomain.PROCESSING, SHARDS)
KEYS = [f"key-{number}" for number in range(12)]
RULE = Rule(idle_min_ms=100, idle_max_ms=150, remember_ms=10_000)
ORIGIN_MS = 1_000_000
STORES = {"heap": HeapStore, "rocksdb": RocksDBStore}
KINDS = (*STORES, "heap in 2 ranges", "rocksdb in 3 ranges")
"""Stores, and over how many workers the tables are spread."""
Pair = tuple[str, int | None]
"""A key and its value; None for a record that only looks."""


class NearWorker:
    """A worker without a process: its store, its calls, and the way to it."""

    def __init__(self, kind: str, folder: Path, clock: FakeClock) -> None:
        self.kind, self.folder, self.clock = kind, folder, clock
        self.is_away = False
        self.later: list[str] = []
        self.start()

    def start(self) -> None:
        self.store = STORES[self.kind](self.folder)
        self.stage = Stage(self.clock)
        self.calls = WorkerCalls(self.store, self.stage, 1 << 30)

    def crash(self) -> None:
        self.store.close()
        self.start()

    def call(self, name: str, header: Any, *parts: bytes) -> Message:
        if self.is_away:
            raise BusyError("away")
        gone, self.later = (self.later, []) if name in WRITING else ([], self.later)
        body = Message({**header, "gone": gone}, parts).encode()
        return Message.decode(self.calls.table.answer(name, body))

    def remove(self, keys: Any) -> None:
        self.later += keys  # sooner or later


@dataclass(frozen=True)
class Planned:
    """A batch as the query's offset log has it."""

    batch_id: int
    pairs: tuple[Pair, ...]
    time_ms: int
    rule: Rule = RULE
    counts: RowsByInput = field(default_factory=dict)


class World:
    """The sidecar's operator, its query, and the reference."""

    def __init__(self, kind: str, folder: Path, rule: Rule = RULE) -> None:
        self.kind, _, spread = kind.partition(" in ")
        self.ranges = int(spread.split()[0]) if spread else 1
        self.folder, self.rule = folder, rule
        self.declaration = DECLARATION
        self.clock = FakeClock(ORIGIN_MS)
        self.commits: set[int] = set()
        self.run_id = "run-0"
        self.executions = 0
        self.store: Store
        self.operator: Operator
        self.open()
        self.reference = Reference(rule, TEXTS)
        self.begin()

    def open(self) -> None:
        self.store = STORES[self.kind](self.folder)
        self.workers: list[NearWorker] = []
        self.placement: ShardPlacement = LocalPlacement(self.store, self.clock)
        if self.ranges > 1:
            places = [self.folder.with_name(f"worker-{at}") for at in range(self.ranges)]
            self.workers = [NearWorker(self.kind, place, self.clock) for place in places]
            names = [f".{at}" for at in range(self.ranges)]
            self.placement = WorkerPlacement(self.workers, names, lambda: None, lambda: 0)
        reached_ms = lambda _, batch_id: 0 if batch_id in self.commits else None  # noqa: E731
        self.host = host = Host(self.store, self.clock, reached_ms, self.placement)
        host.declare(self.declaration, policy_processing(self.rule))
        self.operator = host[UID]

    def reload(self, rule: Rule) -> None:
        """The sidecar's file names another policy."""
        self.host.declare_all([(DECLARATION, policy_processing(rule))])

    def crash(self) -> None:
        """The process dies and is started again: only what was written is left."""
        self.close()
        self.open()

    def close(self) -> None:
        self.store.close()
        for worker in self.workers:
            worker.store.close()

    def stages(self) -> list[Stage]:
        """Where clients hand over what is for a range."""
        if self.placement.stage is not None:
            return [self.placement.stage]
        return [worker.stage for worker in self.workers]

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
        return self.exchange(planned, attempt)[0]

    def exchange(self, planned: Planned, attempt: Attempt) -> tuple[Prepared, list[pa.Table]]:
        """Hand the packets over, have them prepared, and fetch the update rows."""
        packets, stages = packets_of(planned.pairs), self.stages()
        handle = uuid4().hex
        ranges: list[int] = []
        for shard in attempt.shards:
            at = range_of(shard, SHARDS, len(stages))
            stages[at].add(handle, (shard, 0, 0), packets[shard], is_first=at not in ranges)
            ranges.append(at)
        counts = {0: planned.counts}  # of other shards than the task's, nothing is taken
        prepared = self.operator.batches.prepare(attempt, handle, ranges, counts)
        updates = [
            pa.ipc.open_stream(stages[at].fetch(handle, chunk)).read_all()
            for at, chunks in enumerate(prepared.chunks)
            for chunk in range(chunks)
        ]
        return prepared, updates

    def run(self, planned: Planned, execution: str | None = None) -> list[dict[str, Any]]:
        """All tasks of a batch; the update rows."""
        if execution is None:
            self.executions += 1
            execution = f"execution-{self.executions}"
        rows = []
        for partition in range(PARTITIONS):
            attempt = self.attempt(planned, partition, execution)
            self.operator.batches.open(attempt)
            _, updates = self.exchange(planned, attempt)
            rows += [row for each in updates for row in plain_rows(SPEC, each)]
        return rows

    def commit(self, planned: Planned) -> None:
        """Spark commits the batch; the reference takes it."""
        self.commits.add(planned.batch_id)
        self.take_in(planned)

    def settle(self, planned: Planned) -> None:
        """Spark commits the batch, and the sidecar looks."""
        self.commit(planned)
        self.operator.batches.settle()

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
        """A write under the name of its writer, which one client holds for all time."""
        return self.send(writer, self.claim(writer, writer), seq, kind, pairs)

    def claim(self, writer: str, client: str) -> str:
        """Let a client hold a writer's name; its session."""
        return self.operator.writes.claim(writer, client, self.clock.now_ms()).session

    def send(
        self,
        writer: str,
        session: str,
        seq: int,
        kind: str,
        pairs: Sequence[Pair],
        write_id: str | None = None,
    ) -> bool:
        """A write in a session."""
        of_keys = kind in ("touch", "read", "remove")
        given = SentRows(rows_of(pairs, of_keys=of_keys))
        write = Write(writer, session, seq, write_id or uuid4().hex, kind, given)
        return self.operator.writes.take(write, self.clock.now_ms())

    def sweep(self) -> None:
        now_ms = self.clock.now_ms()
        assert not self.operator.sweeper.sweep(now_ms, self.clock, 1000)

    def join(self, span_ms: int = 1 << 40) -> None:
        while self.operator.joins.step(span_ms):
            pass

    # ---- what is compared

    def lives(self) -> list[dict[str, Any]]:
        """Lives in the tables, those that ended and are not swept yet too."""
        found = []
        state = self.operator.state
        for at, shard in enumerate(state.shards):
            for part in lives_in_parts(state.executor, shard, at, state.record.policy):
                found += plain_rows(SPEC, part)
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


def lives_in_parts(
    executor: ShardExecutor, shard: ShardRecord, at: int, policy: Policy
) -> Iterator[pa.Table]:
    """All lives of a shard that does not change."""
    since: int | None = LOWEST_HASH
    while since is not None:
        lives, since = executor.lives(shard, at, (policy, policy), since)
        yield lives


def batch(world: World, batch_id: int, *keys: str, value: int = 1) -> Planned:
    return Planned(batch_id, tuple((key, value) for key in keys), world.clock.now_ms())


def policy_processing(rule: Rule) -> Any:
    """The rule as a policy in processing time."""
    return policy_of(rule, TimeDomain.PROCESSING)


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


def rows_of(pairs: Sequence[Pair], *, of_keys: bool = False) -> bytes:
    """Rows as a client sends them."""
    table = pa.table(
        {
            "k": pa.array([key for key, _ in pairs], pa.string()),
            "v": pa.array([value for _, value in pairs], pa.int64()),
        }
    )
    if of_keys:
        table = table.select(["k"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())

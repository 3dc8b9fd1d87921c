"""Random interleavings of everything that happens to an operator, against the slow reference.

A query plans, runs, retries and commits batches, in order and with crashes of both sides anywhere;
others add, put, touch, read, remove and look, policies are reloaded, lives swept, expired records
joined. After every step the committed lives and the expired records are the reference's, which
knows of no attempts, sets or crashes.
"""

import shutil
import tempfile
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from idlestate.sidecar.core import expired_log_compaction
from idlestate.sidecar.core.table_edits import KINDS as KINDS_OF_WRITES
from idlestate.sidecar.protocol.errors import SidecarError
from tests.lengths import by_cases
from tests.reference import Record, Reference, Rule
from tests.sidecar.sidecar_world import KINDS as KINDS_OF_STORES
from tests.sidecar.sidecar_world import (
    PARTITIONS,
    Pair,
    Planned,
    World,
    rows_of,
)

KEYS = st.sampled_from(["a", "b", "c", "d", "e", "f"])
PAIRS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(-5, 5))), max_size=8)
ROWS = st.lists(st.tuples(KEYS, st.integers(-5, 5)), min_size=1, max_size=4)
RULES = st.sampled_from(
    [
        Rule(idle_min_ms=100, idle_max_ms=150, remember_ms=10_000),
        Rule(idle_min_ms=20, idle_max_ms=30, remember_ms=10_000),
        Rule(ttl_ms=70, remember_ms=10_000),
        Rule(idle_min_ms=50, idle_max_ms=300, max_lifetime_ms=200, remember_ms=10_000),
    ]
)


class Machine(RuleBasedStateMachine):
    """One operator, its query, and everybody else."""

    world: World

    @initialize(kind=st.sampled_from(KINDS_OF_STORES), first=RULES)
    def start(self, kind: str, first: Rule) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.world = World(kind, self.folder / "state", first)
        self.rule = first
        self.next_batch = 0
        self.planned: Planned | None = None
        self.is_begun = False
        self.done: dict[str, set[int]] = {}
        self.runs = 0
        self.seqs: dict[str, int] = {}
        self.waiting: list[tuple[str, list[Pair], int]] = []

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()
            shutil.rmtree(self.folder)

    # ---- the query

    @precondition(lambda self: self.planned is None)
    @rule(pairs=PAIRS, gap=st.integers(0, 1))
    def plan(self, pairs: list[Pair], gap: int) -> None:
        """Spark writes the next batch into its offset log."""
        self.next_batch += gap
        now_ms = self.world.clock.now_ms()
        self.planned = Planned(self.next_batch, tuple(pairs), now_ms, self.rule)
        self.done = {}
        self.is_begun = False

    @precondition(lambda self: self.planned is not None)
    @rule(
        execution=st.sampled_from(["x", "y", "z"]),
        partition=st.integers(0, PARTITIONS - 1),
        attempt=st.integers(0, 2),
        dies=st.booleans(),
    )
    def run_task(self, execution: str, partition: int, attempt: int, dies: bool) -> None:
        """A task runs, or dies when it has opened."""
        planned, name = self.planned, f"{self.world.run_id} {execution}"
        assert planned is not None
        if not self.is_begun:
            self.at_border()
        self.is_begun = True
        task = self.world.attempt(planned, partition, name, attempt=attempt)
        self.world.operator.batches.open(task)
        if not dies:
            self.world.prepare(planned, task)
            self.done.setdefault(name, set()).add(partition)

    @precondition(lambda self: any(len(each) == PARTITIONS for each in self.done.values()))
    @rule(is_seen=st.booleans())
    def commit(self, is_seen: bool) -> None:
        """Spark commits the batch; the sidecar sees it now, or when it looks."""
        assert self.planned is not None
        self.world.commits.add(self.planned.batch_id)
        if not is_seen:
            self.world.crash()
        self.world.operator.batches.settle()
        self.world.take_in(self.planned)
        self.next_batch = self.planned.batch_id + 1
        self.planned = None
        self.done = {}
        self.is_begun = False
        self.at_border()

    @rule()
    def restart_query(self) -> None:
        """The driver dies and comes back: what Spark planned is run again."""
        before = self.world.run_id
        self.runs += 1
        self.world.begin(f"run-{self.runs}")
        self.done = {name: parts for name, parts in self.done.items() if self.is_complete(name)}
        if self.planned is not None:
            try:
                self.world.task(self.planned, 0, "zombie", run_id=before)
            except SidecarError:
                return
            raise AssertionError("a task of a superseded run was admitted")

    def is_complete(self, name: str) -> bool:
        return len(self.done[name]) == PARTITIONS

    @rule(new=RULES)
    def change_policy(self, new: Rule) -> None:
        """From the next batch on another policy holds."""
        self.rule = new

    # ---- the sidecar

    @rule()
    def crash(self) -> None:
        self.world.crash()

    @rule(by=st.sampled_from([0, 1, 10, 30, 99, 151, 400]))
    def time_passes(self, by: int) -> None:
        self.world.clock.advance(by)

    @rule()
    def sweep(self) -> None:
        self.world.sweep()
        if not self.is_begun:
            self.world.reference.batch_id = self.world.operator.record.committed
            self.world.reference.sweep(self.world.clock.now_ms())
            if self.has_swept():
                self.world.judged_ms = max(self.world.judged_ms, self.world.clock.now_ms())

    def has_swept(self) -> bool:
        return self.world.operator.record.time_ms >= self.world.clock.now_ms()

    @rule()
    def compact(self) -> None:
        self.world.operator.sweeper.compact()

    @rule(span_ms=st.sampled_from([0, 50, 10_000]))
    def join(self, span_ms: int) -> None:
        with patch.object(expired_log_compaction, "_LEAST", 2):  # the few entries of a case
            self.world.join(span_ms)

    @rule()
    def settle(self) -> None:
        self.world.operator.batches.settle()

    @precondition(lambda self: not self.is_begun)
    @rule(new=RULES)
    def reload(self, new: Rule) -> None:
        """The sidecar's file has another policy; a query brings its own with its next batch."""
        self.world.reload(new)
        if new != self.world.reference.rule:
            self.world.reference.change_rule(new)

    # ---- others

    @rule(
        writer=st.sampled_from(["v", "w"]),
        kind=st.sampled_from(KINDS_OF_WRITES),
        rows=ROWS,
        again=st.booleans(),
    )
    def write(self, writer: str, kind: str, rows: list[Pair], again: bool) -> None:
        seq = self.seqs.get(writer, -1) + 1
        assert self.world.write(writer, seq, kind, rows)
        if again:
            assert not self.world.write(writer, seq, kind, rows)
        self.seqs[writer] = seq
        self.waiting.append((kind, rows, self.world.clock.now_ms()))
        if not self.is_begun:
            self.at_border()

    def at_border(self) -> None:
        """No batch is open: what others wrote counts."""
        for kind, rows, now_ms in self.waiting:
            t_ms = max(now_ms, self.world.judged_ms)
            self.world.reference.batch_id = self.world.operator.record.committed
            for key, value in rows if kind == "add" else dict(rows).items():
                self.take(kind, Record((key,), t_ms, {"v": value}))
            self.world.judged_ms = t_ms
        self.waiting = []

    def take(self, kind: str, record: Record) -> None:
        """One row of a write, to the reference."""
        reference = self.world.reference
        assert record.t_ms is not None
        life = reference.lives.get(record.key)
        is_open = life is not None and not reference.has_ended(life, record.t_ms)
        if kind == "remove":
            if is_open:
                del reference.lives[record.key]
        elif kind == "read":
            if is_open:
                reference.take(replace(record, read=True))
        elif kind == "touch":
            if is_open:
                kept = deepcopy(reference.lives[record.key].aggregates)
                reference.take(record)
                reference.lives[record.key].aggregates = kept
        else:
            reference.take(record)
            if kind == "put":
                alone = Reference(self.rule, reference.specs)
                alone.take(record)
                reference.lives[record.key].aggregates = alone.lives[record.key].aggregates

    @rule(key=KEYS)
    def look(self, key: str) -> None:
        """A look shows what is open, to the millisecond, and changes nothing."""
        now_ms = self.world.clock.now_ms()
        found, _ = self.world.operator.look_up(rows_of([(key, 0)]), now_ms)
        reference = self.world.reference
        life = reference.lives.get((key,))
        t_ms = max(now_ms, self.world.operator.record.time_ms)
        is_open = life is not None and not reference.has_ended(life, t_ms)
        assert len(found) == is_open

    @invariant()
    def committed_state_is_the_references(self) -> None:
        if hasattr(self, "world"):
            self.world.check()


@by_cases("examples", 15)
def test_an_operator_does_what_the_reference_does(examples: int) -> None:
    chosen = settings(max_examples=examples, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(Machine, settings=chosen)

"""Random lives under idle retention: six ways to keep it, and a naive model beside them.

Key by key and in batches, on every backend, by event time (the watermark) or by processing
time. The model is a dict of cleanup times. Snapshots with restore, also on the other backend, and
changes of the windows are steps.
"""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import assume
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from idlestate.retention.policy import Policy, TimeDomain
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import ValueStateDescriptor
from idlestate.state.idle import IdleRetention
from idlestate.state.idle_batches import IdleBatches
from tests.state.state_steps import MEMORY, NOT_SIMPLEST

POLICIES = st.sampled_from([(2, 3), (10, 10), (10, 15), (30, 45), (30, 100)]).map(
    lambda pair: Policy(idle_min_ms=pair[0], idle_max_ms=pair[1], min_gap_ms=0)
)
KEYS = ["", "a", "b", "c", "\u043a\u043b\u044e\u0447"]
ROWS = st.binary(min_size=2, max_size=12).map(
    lambda drawn: [
        (KEYS[key % len(KEYS)], by_ms % 21)
        for key, by_ms in zip(drawn[::2], drawn[1::2], strict=False)
    ]
)
"""Rows of a batch: a key and how much later than now it is accessed."""


STEPS_BETWEEN_RESTORES = 40
"""Opening RocksDB takes as long as a hundred other steps."""


class Kept:
    """One way to keep the rule."""

    def __init__(self, kind, in_batches, domain, place, restore):
        self.kind, self.in_batches, self.domain = kind, in_batches, domain
        self.place = place
        self.backend = open_backend(kind, place, restore=restore)
        self.due = self.backend.get_state(ValueStateDescriptor(name="due", value_type=pa.int64()))
        self.timers = self.backend.timer_service("idle", self.on_timer, self.on_timer)
        self.ended = []

    def use(self, policy):
        policy = replace(policy, time=self.domain)
        self.one = IdleRetention(policy, self.due, self.timers)
        self.many = IdleBatches(policy, self.due, self.timers)

    def on_timer(self, timer):
        if self.one.is_cleanup_due(timer.timestamp_ms):
            self.ended.append(timer.key)
            self.one.forget()

    def access(self, keys, times):
        if self.in_batches:
            self.many.access_many(keys, times)
            return
        for key, t_ms in zip(keys, times, strict=True):
            self.backend.set_current_key(key)
            self.one.access(t_ms)

    def clean(self, now_ms):
        """Keys whose lives end until now."""
        self.ended = []
        if self.in_batches:
            done = False
            while not done:
                keys, done = self.many.take_idle(now_ms, 3)
                self.ended += keys.keys
        elif self.domain is TimeDomain.EVENT:
            self.timers.advance_watermark(now_ms)
        else:
            self.timers.advance_processing_time(now_ms)
        return sorted(self.ended)


class IdleLives(RuleBasedStateMachine):
    """Six ways, fed with the same steps.

    Attributes:
        taken: how many steps all machines have taken.
    """

    taken = 0

    @initialize(policy=POLICIES, domain=st.sampled_from(TimeDomain), any_number=NOT_SIMPLEST)
    def begin(self, policy, domain, any_number):
        assume(any_number)
        self.folder = Path(tempfile.mkdtemp(prefix="idlestate-machine-", dir=MEMORY))
        self.policy, self.domain = policy, domain
        self.now, self.opened, self.cleanup = 1000, 0, {}
        self.restored = 0
        self.ways = [
            self.open(kind, in_batches, [])
            for kind in ("heap", "rocksdb", "runs")
            for in_batches in (False, True)
        ]

    def open(self, kind, in_batches, restore):
        self.opened += 1
        place = None if kind == "heap" else self.folder / f"db{self.opened}"
        return self.open_at(place, kind, in_batches, restore)

    def open_at(self, place, kind, in_batches, restore):
        kept = Kept(kind, in_batches, self.domain, place, restore)
        kept.use(self.policy)
        return kept

    @rule(rows=ROWS)
    def access(self, rows):
        keys, times = [key for key, _ in rows], [self.now + by_ms for _, by_ms in rows]
        for way in self.ways:
            way.access(keys, times)
        for key, t_ms in zip(keys, times, strict=True):
            before = self.cleanup.get(key)
            if before is None or t_ms + self.policy.idle_min_ms > before:
                self.cleanup[key] = t_ms + self.policy.idle_max_ms

    @rule(by_ms=st.sampled_from([0, 1, 5, 14, 15, 44, 45, 200]))
    def pass_time(self, by_ms):
        self.now += by_ms
        due = sorted(key for key, at in self.cleanup.items() if at <= self.now)
        for way in self.ways:
            assert way.clean(self.now) == due, (way.kind, way.in_batches)
        for key in due:
            del self.cleanup[key]

    @rule(policy=POLICIES)
    def change_policy(self, policy):
        self.policy = policy
        for way in self.ways:
            way.use(policy)

    @rule(merge=st.booleans(), again=st.booleans())
    def border(self, merge, again):
        """The border of a batch on runs, perhaps with a merge of all runs, or a new start."""
        for index, way in enumerate(self.ways):
            if way.kind != "runs":
                continue
            (way.backend.compact if merge else way.backend.commit)()
            if again:
                way.backend.close()
                self.ways[index] = self.open_at(way.place, way.kind, way.in_batches, [])

    @precondition(lambda self: self.restored >= STEPS_BETWEEN_RESTORES)
    @rule(swapped=st.booleans())
    def restore(self, swapped):
        self.restored, ways = 0, []
        for way in self.ways:
            folder = self.folder / f"snapshot-{self.opened}-{way.kind}-{way.in_batches}"
            way.backend.snapshot(folder).finish()
            way.backend.close()
            other = {"heap": "rocksdb", "rocksdb": "runs", "runs": "heap"}[way.kind]
            ways.append(self.open(other if swapped else way.kind, way.in_batches, [folder]))
        self.ways = ways

    @invariant()
    def one_more(self):
        IdleLives.taken += 1
        self.restored += 1

    def teardown(self):
        for way in getattr(self, "ways", []):
            way.backend.close()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

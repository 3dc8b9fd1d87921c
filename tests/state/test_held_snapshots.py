"""A heap snapshot is the state of the moment it was taken at, whatever happens until it is written.

Random calls, batches, sweeps and timers go on while snapshots are held, and while a helper thread
writes them; tables are made to go the way that a million keys go.
"""

import random
import sys
from contextlib import ExitStack
from itertools import product
from threading import Event

import pyarrow as pa
import pytest

from idlestate.retention.policy import TimeDomain, UpdateType
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.errors import StateArgumentError
from idlestate.state.heap import (
    copy_on_write_columns,
    frozen_rows,
    heap_items,
    heap_keys,
    heap_timers,
    item_chains,
    values_table,
)
from idlestate.state.heap.frozen_rows import FrozenTable
from idlestate.timers.clock import FakeClock
from tests.patience import PATIENCE_S
from tests.state.golden_state import descriptor_of, raw_of, run_op
from tests.state.state_steps import ONE_BY_ONE, SPACES, USER_KEYS

KEYS = [f"key {number}" for number in range(30)]
TTLS = [
    None,
    StateTtlConfig(ttl_ms=40),
    StateTtlConfig(ttl_ms=40, update_type=UpdateType.ON_READ_AND_WRITE),
]


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    for module, limits in {
        values_table: {"FRONT": 8, "SMALL": 3},
        heap_items: {"SMALL": 3, "AT_ONCE": 7, "FOLD": 3},
        item_chains: {"SPARE": 8},
        heap_keys: {"SPARE": 8},
        frozen_rows: {"AT_ONCE": 5},
        copy_on_write_columns: {"PAGE": 4},
        heap_timers: {"FRONT": 8, "CHUNK": 4, "SPARE": 8, "AT_ONCE": 5},
    }.items():
        for name, value in limits.items():
            monkeypatch.setattr(module, name, value)


class World:
    """One state and its timers, and everything that may happen to them.

    Batches of up to two keys are done key by key: then all stays in dicts.
    """

    def __init__(self, kind, ttl, chance, backend, clock, batches=(2, 10, 40)):
        self.batches, self.budgets = batches, (3, 1000)
        self.kind, self.chance, self.clock, self.backend = kind, chance, clock, backend
        self.state = backend.get_state(descriptor_of(kind, ttl))
        self.timers = backend.timer_service("t", lambda timer: None, lambda timer: None)

    def everything(self):
        """What is stored and waits, as single calls tell it."""
        stored = {
            (key, space): raw_of(self.state, key, space) for key, space in product(KEYS, SPACES)
        }
        waiting = {domain: list(self.timers.timers(domain)) for domain in TimeDomain}
        return stored, waiting, self.backend.size("state")

    def step(self):
        chance = self.chance
        self.clock.advance(chance.choice([0, 0, 1, 3]))
        self.backend.set_current_key(chance.choice(KEYS))
        self.state.set_current_namespace(chance.choice(SPACES))
        action = chance.choice(
            [self.call] * 6
            + [self.batch, self.batch, self.remove, self.sweep]
            + [self.timer, self.timer, self.many_timers, self.fire]
            + [self.state.clear]
        )
        action()
        if chance.random() < 0.02:
            self.backend.compact()

    def call(self):
        op, *args = self.chance.choice(ONE_BY_ONE[self.kind])
        run_op(self.state, op, args)

    def some(self):
        return self.chance.choices(KEYS, k=self.chance.choice(self.batches))

    def batch(self):
        keys, state = self.some(), self.state
        numbers = [self.chance.randrange(100) for _ in keys]
        match self.kind:
            case "value":
                state.put_many(keys, [f"text {number}" for number in numbers])
            case "map":
                state.put_many(keys, [self.chance.choice(USER_KEYS) for _ in keys], numbers)
            case _:
                state.add_many(keys, numbers)

    def remove(self):
        keys = self.some()
        if self.kind == "map" and self.chance.random() < 0.5:
            self.state.remove_entries(keys, [self.chance.choice(USER_KEYS) for _ in keys])
        else:
            self.state.remove_many(keys)

    def sweep(self):
        now_ms, budget = self.clock.now_ms(), self.chance.choice(self.budgets)
        self.backend.sweep(now_ms, budget, records=self.chance.random() < 0.3)

    def timer(self):
        at_ms = self.chance.randrange(50)
        register, delete = (
            self.timers.register_event_time_timer,
            self.timers.delete_event_time_timer,
        )
        self.chance.choice([register, register, delete])(self.chance.choice(SPACES), at_ms)

    def many_timers(self):
        keys = self.some()
        times = [self.chance.randrange(50) for _ in keys]
        self.timers.register_many(TimeDomain.PROCESSING, keys, None, times)

    def fire(self):
        if self.chance.random() < 0.5:
            self.timers.advance_watermark(self.chance.randrange(20))
        else:
            self.timers.take_due(TimeDomain.PROCESSING, self.chance.randrange(20), 7)


def restored(kind, ttl, clock, folder):
    """Everything that a snapshot holds."""
    with open_backend("heap", clock=clock, restore=[folder]) as backend:
        return World(kind, ttl, None, backend, clock).everything()


@pytest.mark.parametrize("kind", sorted(ONE_BY_ONE))
@pytest.mark.parametrize(
    "ttl",
    [
        pytest.param(TTLS[0], id="no ttl"),
        pytest.param(TTLS[1], id="on write", marks=pytest.mark.long),
        pytest.param(TTLS[2], id="on read"),
    ],
)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_snapshot_is_the_state_of_its_moment(kind, ttl, seed, tmp_path):
    """Several are held at once, and finished in any order, or discarded."""
    chance, clock = random.Random(f"{kind} {seed}"), FakeClock(1_000)
    held = {}
    with open_backend("heap", clock=clock) as backend:
        world = World(kind, ttl, chance, backend, clock)
        for number in range(7):
            for _ in range(chance.choice([1, 20, 60])):
                world.step()
            folder = tmp_path / str(number)
            expected = world.everything()
            held[folder] = (backend.snapshot(folder), expected)
            for _ in range(chance.choice([1, 30])):
                world.step()
            while len(held) > chance.randrange(3):
                snapshot, expected = held.pop(folder := chance.choice(list(held)))
                if chance.random() < 0.2:
                    snapshot.discard()
                else:
                    snapshot.finish()
                    assert restored(kind, ttl, clock, folder) == expected


@pytest.mark.parametrize("kind", sorted(ONE_BY_ONE))
@pytest.mark.parametrize("batches", [(2,), (2, 10, 40)], ids=["dicts", "columns"])
def test_calls_see_no_difference_while_snapshots_are_held(kind, batches, tmp_path):
    """But for the order in which cleanup comes to keys: here it comes to all at once."""
    chance, held = random.Random(kind), []
    ttl = StateTtlConfig(ttl_ms=40, cleanup_in_background=False)
    clocks = FakeClock(0), FakeClock(0)
    with ExitStack() as stack:
        backends = [stack.enter_context(open_backend("heap", clock=clock)) for clock in clocks]
        first, second = (
            World(kind, ttl, random.Random(7), *pair, batches)
            for pair in zip(backends, clocks, strict=True)
        )
        first.budgets = second.budgets = (1000,)
        for number in range(300):
            first.step()
            second.step()
            if number % 15 == 14:
                assert first.everything() == second.everything()
            if chance.random() < 0.15:
                held.append(backends[0].snapshot(tmp_path / str(number)))
            while held and chance.random() < 0.1:
                held.pop(chance.randrange(len(held))).discard()
            if chance.random() < 0.06:
                while held:
                    held.pop().discard()


@pytest.mark.parametrize("kind", sorted(ONE_BY_ONE))
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_helper_thread_writes_the_moment_while_calls_go_on(kind, seed, tmp_path):
    before_s = sys.getswitchinterval()
    chance, clock, ttl = random.Random(f"{kind} {seed}"), FakeClock(1_000), TTLS[seed + 1]
    sys.setswitchinterval(1e-5)
    try:
        with open_backend("heap", clock=clock) as backend:
            world = World(kind, ttl, chance, backend, clock)
            for number in range(4):
                for _ in range(60):
                    world.step()
                folder, expected = tmp_path / str(number), world.everything()
                finishing, steps = backend.snapshot(folder).finish_in_thread(), 0
                while not finishing.done() or steps < 30:
                    world.step()
                    steps += 1
                assert finishing.result().folder == folder
                assert restored(kind, ttl, clock, folder) == expected
    finally:
        sys.setswitchinterval(before_s)


def test_calls_go_on_while_a_helper_thread_is_at_work(tmp_path, monkeypatch):
    """The helper waits in the middle of its work; nothing waits for it."""
    goes_on, rows = Event(), FrozenTable.rows

    def waiting_rows(frozen, groups):
        assert goes_on.wait(PATIENCE_S)
        return rows(frozen, groups)

    monkeypatch.setattr(FrozenTable, "rows", waiting_rows)
    with open_backend("heap") as backend:
        state = backend.get_state(descriptor_of("value", None))
        state.put_many(KEYS, ["before"] * len(KEYS))
        finishing = backend.snapshot(tmp_path / "snapshot").finish_in_thread()
        state.put_many(KEYS, ["after"] * len(KEYS))
        assert set(state.get_many(KEYS).to_pylist()) == {"after"}
        assert not finishing.done()
        goes_on.set()
        finishing.result()
    with open_backend("heap", restore=[tmp_path / "snapshot"]) as backend:
        state = backend.get_state(descriptor_of("value", None))
        assert set(state.get_many(KEYS).to_pylist()) == {"before"}


def test_what_goes_wrong_in_a_helper_thread_is_told_by_the_future(tmp_path):
    with open_backend("heap") as backend:
        backend.get_state(descriptor_of("value", None))
        first, second = (backend.snapshot(tmp_path / "snapshot") for _ in range(2))
        first.finish()
        with pytest.raises(StateArgumentError, match="is there already"):
            second.finish_in_thread().result()


@pytest.mark.parametrize("kind", ["heap", "rocksdb"])
def test_a_snapshot_can_be_finished_after_close(kind, tmp_path):
    with open_backend(kind, None if kind == "heap" else tmp_path / "db") as backend:
        state = backend.get_state(descriptor_of("value", None))
        state.put_many(KEYS, ["x"] * len(KEYS))
        held = backend.snapshot(tmp_path / "snapshot")
    held.finish()
    with open_backend("heap", restore=[tmp_path / "snapshot"]) as backend:
        assert sorted(backend.keys("state")) == sorted(KEYS)


def test_no_layer_is_left_when_no_snapshot_is(tmp_path):
    """Snapshots that come and go leave dicts as they were, not one more level each."""
    with open_backend("heap") as backend:
        state = backend.get_state(descriptor_of("list", None))
        for number in range(5):
            for key in KEYS:
                backend.set_current_key(key)
                state.add(number)
            backend.snapshot(tmp_path / str(number)).finish()
        for key in [*KEYS, *KEYS]:
            backend.set_current_key(key)
            state.clear()
        backend.set_current_key("nobody")
        for _ in KEYS:
            assert state.get() is None
        assert state.table._layers == []
        assert state.table._held == []
        assert backend.size("state") == 0


def test_timers_of_every_queue_are_in_the_snapshot(tmp_path):
    """Those that are objects, those that wait in arrays, and those removed from either."""
    with open_backend("heap") as backend:
        timers = backend.timer_service("t", lambda timer: None, lambda timer: None)
        timers.register_many(TimeDomain.EVENT, pa.array(KEYS), None, range(len(KEYS)))
        for number in range(5):
            backend.set_current_key("late")
            timers.register_event_time_timer("w", 100 + number)
        timers.delete_event_time_timer("w", 101)
        timers.advance_watermark(10)
        expected = list(timers.timers(TimeDomain.EVENT))
        held = backend.snapshot(tmp_path / "snapshot")
        timers.advance_watermark(1000)
        held.finish()
    with open_backend("heap", restore=[tmp_path / "snapshot"]) as backend:
        timers = backend.timer_service("t", lambda timer: None, lambda timer: None)
        assert list(timers.timers(TimeDomain.EVENT)) == expected
        assert len(expected) == len(KEYS) - 11 + 4


@pytest.mark.parametrize("kind", ["list", "map"])
def test_compacting_leaves_what_a_snapshot_holds_alone(kind, tmp_path):
    clock, (op, *args) = FakeClock(1_000), {"list": ("add", 1), "map": ("put", "x", 1)}[kind]
    with open_backend("heap", clock=clock) as backend:
        world = World(kind, None, random.Random(1), backend, clock)
        backend.set_current_key(KEYS[0])
        run_op(world.state, op, args)
        expected = world.everything()
        held = backend.snapshot(tmp_path / "snapshot")
        backend.compact()
        run_op(world.state, op, [*args[:-1], 2])
        held.finish()
    assert restored(kind, None, clock, tmp_path / "snapshot") == expected

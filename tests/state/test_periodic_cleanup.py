"""The cleanup of RocksDB that has a period: what has expired goes though nobody compacts."""

import random
import shutil

import pyarrow as pa
import pytest

from idlestate.retention.policy import TimeDomain
from idlestate.retention.ttl_config import CompactionCleanup, StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from idlestate.state.errors import StateStoreError
from idlestate.state.rocksdb import periodic_cleanup
from idlestate.state.rocksdb.periodic_cleanup import MOST
from idlestate.state.rocksdb.rocksdb_table import RocksDBTable
from idlestate.timers.clock import FakeClock
from tests.state.golden_state import descriptor_of, run_op

PERIOD_MS = 60_000
PAUSE_MS = 200
"""Between accesses: enough for the largest portion."""

FILL = {
    "value": ("update", ["x"]),
    "list": ("add", [1]),
    "map": ("put", ["x", 1]),
    "reducing": ("add", [1]),
    "aggregating": ("add", [1]),
}


def ttl_of(period_ms=PERIOD_MS, **more):
    return StateTtlConfig(ttl_ms=100, compaction=CompactionCleanup(7, period_ms), **more)


@pytest.mark.parametrize("kind", FILL)
@pytest.mark.parametrize("time", TimeDomain)
def test_what_has_expired_is_gone_a_period_after_the_last_walk(kind, time, tmp_path):
    clock, (op, args) = FakeClock(1_000), FILL[kind]
    with open_backend("rocksdb", tmp_path / "db", clock=clock) as backend:
        backend.watermark.advance(clock.now_ms())
        state = backend.get_state(descriptor_of(kind, ttl_of(time=time)))
        for number in range(50):
            backend.set_current_key(f"old {number}")
            run_op(state, op, args)
        clock.advance(PERIOD_MS - 1)
        backend.watermark.advance(clock.now_ms())
        backend.set_current_key("new")
        run_op(state, op, args)
        assert backend.size("state") == 51
        clock.advance(PAUSE_MS)
        run_op(state, op, args)
        assert sorted(backend.keys("state")) == ["new"]


def test_one_access_looks_at_a_bounded_part_and_the_next_goes_on(tmp_path):
    clock, count = FakeClock(0), 2 * MOST + 500
    with open_backend("rocksdb", tmp_path / "db", clock=clock) as backend:
        state = backend.get_state(descriptor_of("reducing", ttl_of()))
        state.add_many([f"key {number}" for number in range(count)], [1] * count)
        clock.advance(PERIOD_MS)
        for left in (count - MOST, count - 2 * MOST, 0):
            assert state.get_many(["nobody"]).to_pylist() == [None]
            assert backend.size("state") == left
            clock.advance(PAUSE_MS)


def test_the_period_goes_on_over_restarts(tmp_path):
    clock = FakeClock(0)
    for part in range(3):
        with open_backend("rocksdb", tmp_path / "db", clock=clock) as backend:
            state = backend.get_state(descriptor_of("reducing", ttl_of()))
            if not part:
                state.add_many(["a", "b"], [1, 1])
            clock.advance(PERIOD_MS // 2)
            backend.set_current_key("nobody")
            assert state.get() is None
            assert backend.size("state") == (2 if part < 1 else 0)


def test_a_walk_that_was_cut_off_begins_again(tmp_path):
    clock, count = FakeClock(0), MOST + 10
    for part in range(2):
        with open_backend("rocksdb", tmp_path / "db", clock=clock) as backend:
            state = backend.get_state(descriptor_of("reducing", ttl_of()))
            if not part:
                state.add_many([f"key {number}" for number in range(count)], [1] * count)
                clock.advance(PERIOD_MS)
            clock.advance(PAUSE_MS)
            state.get_many(["nobody"])
            assert backend.size("state") == (0 if part else 10)


@pytest.mark.parametrize("period_ms", [0, -1])
def test_without_a_period_nothing_goes_by_itself(period_ms, tmp_path):
    clock = FakeClock(0)
    with open_backend("rocksdb", tmp_path / "db", clock=clock) as backend:
        state = backend.get_state(descriptor_of("reducing", ttl_of(period_ms)))
        state.add_many(["a"], [1])
        clock.advance(1000 * PERIOD_MS)
        backend.set_current_key("nobody")
        assert state.get() is None
        assert backend.size("state") == 1


def test_a_disk_that_takes_no_deletes_does_not_stop_reads(tmp_path, monkeypatch):
    clock = FakeClock(0)
    with open_backend("rocksdb", tmp_path / "db", clock=clock) as backend:
        state = backend.get_state(descriptor_of("reducing", ttl_of()))
        state.add_many(["a"], [1])
        clock.advance(PERIOD_MS)

        def full(_table, _batch):
            raise StateStoreError("no space left")

        backend.set_current_key("nobody")
        with monkeypatch.context() as patch:
            patch.setattr(RocksDBTable, "write", full)
            assert state.get() is None
        assert backend.size("state") == 1
        clock.advance(PAUSE_MS)
        assert state.get() is None
        assert backend.size("state") == 0


def longs(name, **more):
    return ListStateDescriptor(name=name, value_type=pa.int64(), **more)


@pytest.mark.parametrize("seed", range(3))
def test_lists_that_grow_while_a_walk_goes_on_lose_nothing(seed, tmp_path, monkeypatch):
    chance, clock, expected = random.Random(seed), FakeClock(0), {}
    monkeypatch.setattr(periodic_cleanup, "LEAST", 1)
    monkeypatch.setattr(periodic_cleanup, "MOST", 1)
    ttl = StateTtlConfig(ttl_ms=10**9, compaction=CompactionCleanup(1, 1))
    with open_backend("rocksdb", tmp_path / "db", clock=clock) as backend:
        state = backend.get_state(longs("l", ttl=ttl))
        for number in range(600):
            key = f"key {chance.randrange(5)}"
            backend.set_current_key(key)
            state.add(number)
            expected.setdefault(key, []).append(number)
            clock.advance(1)
        keys = sorted(expected)
        assert state.get_many(keys).to_pylist() == [expected[key] for key in keys]


def test_a_sweep_keeps_lists_that_grow_between_its_parts(tmp_path):
    """The clock runs back here: only then is something older added behind what was swept."""
    clock = FakeClock(1_000)
    ttl = StateTtlConfig(ttl_ms=100, cleanup_in_background=False)
    with open_backend("rocksdb", tmp_path / "db", clock=clock) as backend:
        state = backend.get_state(longs("l", ttl=ttl))
        backend.set_current_key("a")
        state.add(1)
        backend.compact()
        assert not backend.sweep(clock.now_ms(), 1).done
        clock.advance(-50)
        state.add(2)
        clock.advance(40)
        state.add(3)
        clock.advance(70)
        while not backend.sweep(clock.now_ms(), 1).done:
            pass
        assert list(state.get()) == [1, 3]


def test_a_snapshot_of_files_takes_the_period_along(tmp_path):
    clock = FakeClock(0)
    descriptor = ValueStateDescriptor(name="v", value_type=pa.int64(), ttl=ttl_of())
    with open_backend("rocksdb", tmp_path / "db", clock=clock) as backend:
        backend.get_state(descriptor).put_many(["a"], [1])
        clock.advance(PERIOD_MS - 1)
        backend.snapshot(tmp_path / "snapshot").finish()
    shutil.rmtree(tmp_path / "db")
    restore = [tmp_path / "snapshot"]
    with open_backend("rocksdb", tmp_path / "db", clock=clock, restore=restore) as backend:
        state = backend.get_state(descriptor)
        clock.advance(PAUSE_MS)
        state.get_many(["nobody"])
        assert backend.size("v") == 0

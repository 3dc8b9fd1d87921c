"""Idle retention in batches ends the lives that it ends key by key."""

import random

import numpy as np
import pyarrow as pa
import pytest

from idlestate.retention.policy import Policy, TimeDomain
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import ValueStateDescriptor
from idlestate.state.errors import NullValueError, StateError, StateTypeError
from idlestate.state.idle import IdleRetention
from idlestate.state.idle_batches import IdleBatches
from idlestate.timers import timer_service as service


@pytest.mark.parametrize("domain", ["event", "processing", None])
def test_what_is_no_time_domain_is_refused_at_once(domain):
    with open_backend("heap") as backend:
        timers = backend.timer_service("idle", lambda timer: None, lambda timer: None)
        for call in (
            lambda: timers.register_many(domain, ["a"], None, [1]),
            lambda: timers.take_due(domain, 1, 1),
        ):
            with pytest.raises(TypeError, match=r"pass idlestate\.TimeDomain"):
                call()
        assert [timers.count(each) for each in TimeDomain] == [0, 0]


@pytest.mark.parametrize("domain", TimeDomain)
def test_timers_are_of_the_policys_time_domain(domain):
    policy = Policy(idle_min_ms=30, idle_max_ms=45, min_gap_ms=0, time=domain)
    with open_backend("heap") as backend:
        timers = backend.timer_service("idle", lambda timer: None, lambda timer: None)
        idle = IdleBatches(policy, cleanup_state(backend), timers)
        idle.access_many(["a"], [100])
        assert [timers.count(each) for each in TimeDomain] == [
            each is domain for each in TimeDomain
        ]
        assert idle.take_idle(145, 10)[0].keys == ["a"]


def test_there_is_one_time_domain():
    """A domain of another enum would compare unequal to both, and count as the other one."""
    assert service.TimeDomain is TimeDomain


POLICY = Policy(idle_min_ms=30, idle_max_ms=45, min_gap_ms=0)


@pytest.mark.parametrize("kind", ["heap", "rocksdb", "runs"])
@pytest.mark.parametrize(
    ("times", "error", "text"),
    [
        (pa.array([100, None]), NullValueError, "time of key 'b' is None"),
        ([None, None], NullValueError, "time of key 'a' is None"),
        ([100], StateError, "2 keys, but 1 times"),
        (np.array([100, 200, 300]), StateError, "2 keys, but 3 times"),
        ([100, 100.9], StateTypeError, "double: pass milliseconds"),
        (np.array([100.0, np.nan]), StateTypeError, "double: pass milliseconds"),
        (np.array([1, 2], dtype="datetime64[ns]"), StateTypeError, "timestamp.*pass milliseconds"),
        ([100, "x"], StateTypeError, "pass milliseconds"),
        ([100, 2**63], StateTypeError, "pass milliseconds"),
        (pa.array([100, 2**63], pa.uint64()), StateTypeError, "pass milliseconds"),
    ],
)
def test_times_that_are_not_one_integer_for_each_key_are_refused(
    tmp_path, kind, times, error, text
):
    with open_backend(kind, None if kind == "heap" else tmp_path / "db") as backend:
        timers = backend.timer_service("idle", lambda timer: None, lambda timer: None)
        idle = IdleBatches(POLICY, cleanup_state(backend), timers)
        for call in (
            lambda: idle.access_many(["a", "b"], times),
            lambda: timers.register_many(TimeDomain.EVENT, ["a", "b"], None, times),
        ):
            with pytest.raises(error, match=text):
                call()
        assert timers.count(TimeDomain.EVENT) == backend.size("due") == 0


@pytest.mark.parametrize(
    "times",
    [
        [100, np.int64(200)],
        range(100, 300, 100),
        np.array([100, 200], dtype=np.int16),
        pa.chunked_array([[100], [200]], pa.uint64()),
    ],
    ids=["list", "range", "numpy", "arrow"],
)
def test_times_are_integers_of_any_kind(times):
    with open_backend("heap") as backend:
        timers = backend.timer_service("idle", lambda timer: None, lambda timer: None)
        due = cleanup_state(backend)
        idle = IdleBatches(POLICY, due, timers)
        idle.access_many(["a", "b"], times)
        idle.access_many([], [])
        idle.access_many([], np.array([]))
        assert due.get_many(["a", "b"]).to_pylist() == [145, 245]


def cleanup_state(backend):
    return backend.get_state(ValueStateDescriptor(name="due", value_type=pa.int64()))


def one_by_one(steps, sweeps):
    """(sweep, key) of every key that was cleaned."""
    ended = []
    with open_backend("heap") as backend:

        def on_timer(timer):
            if idle.is_cleanup_due(timer.timestamp_ms):
                ended.append((at, timer.key))
                idle.forget()

        timers = backend.timer_service("idle", lambda timer: None, on_timer)
        idle = IdleRetention(POLICY, cleanup_state(backend), timers)
        for batch, at in zip(steps, sweeps, strict=True):
            for key, t_ms in batch:
                backend.set_current_key(key)
                idle.access(t_ms)
            timers.advance_watermark(at)
    return sorted(ended)


@pytest.mark.parametrize("kind", ["heap", "rocksdb", "runs"])
@pytest.mark.parametrize("seed", range(4))
def test_batches_end_the_same_lives(tmp_path, kind, seed):
    chance, now, steps, sweeps = random.Random(seed), 0, [], []
    for _ in range(40):
        batch = [(f"key {chance.randrange(30)}", now + chance.randrange(12)) for _ in range(25)]
        steps.append(batch if chance.random() < 0.7 else [])
        now += chance.randrange(25)
        sweeps.append(now)
    ended = []
    with open_backend(kind, None if kind == "heap" else tmp_path / "db") as backend:
        timers = backend.timer_service("idle", lambda timer: None, lambda timer: None)
        idle = IdleBatches(POLICY, cleanup_state(backend), timers)
        for batch, at in zip(steps, sweeps, strict=True):
            idle.access_many([key for key, _ in batch], [t_ms for _, t_ms in batch])
            done = False
            while not done:
                keys, done = idle.take_idle(at, 7)
                ended += [(at, key) for key in keys.keys]
    assert sorted(ended) == one_by_one(steps, sweeps)


def test_the_rule_is_off_below_two_milliseconds():
    with open_backend("heap") as backend:
        timers = backend.timer_service("idle", lambda timer: None, lambda timer: None)
        idle = IdleBatches(Policy(), cleanup_state(backend), timers)
        idle.access_many(["a"], [1])
        assert timers.count(TimeDomain.EVENT) == 0

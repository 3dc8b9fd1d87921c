"""Batch calls do what calls one by one do."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from idlestate.errors import RefusedError
from idlestate.retention.policy import FOREVER_MS, TimeDomain
from idlestate.retention.rules import NEVER_MS
from idlestate.retention.ttl_config import StateTtlConfig, StateVisibility
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import (
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from idlestate.state.errors import (
    NullValueError,
    StateError,
    StateMigrationError,
    StateTypeError,
)
from idlestate.timers.clock import FakeClock
from tests.state.golden_state import descriptor_of, raw_of

BRIEF = StateTtlConfig(ttl_ms=100)
SHOWN = StateTtlConfig(
    ttl_ms=100,
    visibility=StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP,
    cleanup_in_background=False,
)


@pytest.fixture(params=["heap", "rocksdb", "runs"])
def backend(request, tmp_path):
    clock = FakeClock(1000)
    place = None if request.param == "heap" else tmp_path / "db"
    with open_backend(request.param, place, clock=clock) as opened:
        opened.clock = clock
        yield opened


def number_state(backend, ttl):
    return backend.get_state(ValueStateDescriptor(name="n", value_type=pa.int64(), ttl=ttl))


@pytest.mark.parametrize("ttl", [None, BRIEF])
def test_values_of_a_batch(backend, ttl):
    state = number_state(backend, ttl)
    state.put_many(pa.array(["a", "b", "a"]), np.array([1, 2, 3]))
    assert state.get_many(["a", "b", "c"]).to_pylist() == [3, 2, None]
    state.put_many(["a", "d", "d"], [None, 5, None])
    assert state.get_many(["a", "b", "d"]).to_pylist() == [None, 2, None]
    state.remove_many(["b"])
    assert state.get_many(["b"]).to_pylist() == [None]
    assert backend.size("n") == 0
    with pytest.raises(StateError, match="2 keys, but 1 values"):
        state.put_many(["a", "b"], [1])


def test_expired_values_of_a_batch_are_shown_once(backend):
    state = number_state(backend, SHOWN)
    state.put_many(["a", "b"], [1, 2])
    backend.clock.advance(99)
    assert state.get_many(["a"]).to_pylist() == [1]
    backend.clock.advance(1)
    assert state.get_many(["a", "a", "b"]).to_pylist() == [1, None, 2]
    assert state.get_many(["a", "b"]).to_pylist() == [None, None]
    assert backend.size("n") == 0


@pytest.mark.parametrize("kind", ["list", "reducing", "aggregating"])
@pytest.mark.parametrize("ttl", [None, BRIEF])
def test_adding_a_batch_is_adding_one_by_one(backend, kind, ttl):
    state = backend.get_state(descriptor_of(kind, ttl))
    keys, values = ["a", "b", "a", "c", "a"], [1, 2, 3, 4, 5]
    state.add_many(keys, values)
    whole = {"list": [1, 3, 5], "reducing": 9, "aggregating": {"sum": 9, "count": 3}}[kind]
    assert state.get_many(["a"]).to_pylist() == [whole]
    backend.set_current_key("a")
    state.add(7)
    more = {"list": [1, 3, 5, 7], "reducing": 16, "aggregating": {"sum": 16, "count": 4}}[kind]
    assert state.get_many(["a"]).to_pylist() == [more]
    with pytest.raises(NullValueError):
        state.add_many(["a", "b"], [1, None])
    assert state.get_many(["a"]).to_pylist() == [more]


@pytest.mark.parametrize("kind", ["reducing", "aggregating"])
@pytest.mark.parametrize("ttl", [BRIEF, SHOWN, replace(SHOWN, time=TimeDomain.EVENT)])
@pytest.mark.parametrize("now", [NEVER_MS, 5, FOREVER_MS - 1])
def test_a_batch_adds_at_the_ends_of_time_as_calls_do(backend, kind, ttl, now):
    backend.clock.advance(now - backend.clock.now_ms())
    backend.watermark.advance(now)
    many, one = (backend.get_state(descriptor_of(kind, ttl, name=name)) for name in "mo")
    keys = ["a", "b", "a"] * 10
    for _ in range(2):
        many.add_many(keys, [1, 2, 3] * 10)
        for key, value in zip(keys, [1, 2, 3] * 10, strict=True):
            backend.set_current_key(key)
            one.add(value)
        stored = [[raw_of(state, key) for key in ("a", "b")] for state in (many, one)]
        assert stored[0] == stored[1]


@pytest.mark.parametrize("ttl", [None, BRIEF])
def test_a_merge_of_namespaces_that_fails_changes_nothing(backend, ttl):
    state = backend.get_state(
        ReducingStateDescriptor(
            name="r", value_type=pa.int64(), reduce=lambda left, right: "no number", ttl=ttl
        )
    )
    backend.set_current_key("a")
    for number, namespace in enumerate("xyz"):
        state.set_current_namespace(namespace)
        state.add(number)
    with pytest.raises(StateTypeError, match="'no number' is not a valid int64"):
        state.merge_namespaces("x", ["y", "z"])
    found = []
    for namespace in "xyz":
        state.set_current_namespace(namespace)
        found.append(state.get())
    assert found == [0, 1, 2]


def test_state_in_event_time_is_not_used_before_the_first_watermark(backend):
    """Its values would expire with that watermark; a restart would end all that are read."""
    state = backend.get_state(descriptor_of("value", replace(SHOWN, time=TimeDomain.EVENT)))
    backend.set_current_key("a")
    uses = [
        lambda: state.update("x"),
        lambda: state.get_many(["a"]),
        lambda: state.put_many(["a"], ["x"]),
    ]
    for use in uses:
        with pytest.raises(RefusedError, match=r"call backend\.watermark\.advance"):
            use()
    assert backend.sweep(FOREVER_MS, 10).done
    backend.watermark.advance(0)
    state.update("x")
    assert state.value() == "x"


@pytest.mark.parametrize("ttl", [None, BRIEF])
def test_entries_of_a_batch(backend, ttl):
    state = backend.get_state(
        MapStateDescriptor(name="m", key_type=pa.string(), value_type=pa.int64(), ttl=ttl)
    )
    state.put_many(["a", "a", "b"], ["x", "y", "x"], [1, 2, 3])
    assert state.get_many(["a", "a", "b", "b"], ["x", "y", "x", "y"]).to_pylist() == [1, 2, 3, None]
    state.remove_entries(["a"], ["x"])
    backend.set_current_key("a")
    assert sorted(state.entries()) == [("y", 2)]


@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("ttl", [None, BRIEF])
def test_entries_without_a_value_or_a_user_key(backend, ttl, count):
    state = backend.get_state(
        MapStateDescriptor(name="m", key_type=pa.string(), value_type=pa.int64(), ttl=ttl)
    )
    keys, user_keys = [f"key {number}" for number in range(count)], [None, "x", ""] * count
    backend.set_current_key(keys[0])
    if backend.kind == "rocksdb" and ttl is not None:
        with pytest.raises(NullValueError):
            state.put_many(keys, user_keys[:count], [1, None, *range(2, count)])
        assert backend.size("m") == 0
        return
    state.put_many(keys, user_keys[:count], [None, *range(1, count)])
    assert state.contains(None)
    assert state.get(None) is None
    assert list(state.entries()) == [(None, None)]
    found = state.get_many(keys, user_keys[:count]).to_pylist()
    assert found == [None, *range(1, count)]
    assert state.get_many(keys, ["nowhere"] * count).null_count == count
    state.put("x", 7)
    assert dict(state.entries()) == {None: None, "x": 7}
    state.remove_entries(keys, user_keys[:count])
    assert list(state.entries()) == [("x", 7)]
    assert backend.size("m") == 1


def test_a_changed_struct_is_applied_or_refused(tmp_path):
    old = pa.struct([("n", pa.int32()), ("gone", pa.string())])
    new = pa.struct([("n", pa.int64()), ("where", pa.string())])
    with open_backend("rocksdb", tmp_path / "db") as backend:
        state = backend.get_state(ValueStateDescriptor(name="s", value_type=old))
        backend.set_current_key("k")
        state.update((7, "x"))
    with open_backend("rocksdb", tmp_path / "db") as backend:
        with pytest.raises(StateMigrationError, match="state s, field where: declared as string"):
            backend.get_state(ValueStateDescriptor(name="s", value_type=new))
        state = backend.get_state(
            ValueStateDescriptor(name="s", value_type=new, defaults={"where": "here"})
        )
        backend.set_current_key("k")
        assert state.value() == (7, "here")
    with open_backend("rocksdb", tmp_path / "db") as backend:
        narrow = pa.struct([("n", pa.int32()), ("where", pa.string())])
        with pytest.raises(StateMigrationError, match="field n: stored as int64"):
            backend.get_state(ValueStateDescriptor(name="s", value_type=narrow))


def test_keys_may_be_removed_while_they_are_gone_through(backend):
    state = number_state(backend, BRIEF)
    count = 100 if backend.kind == "runs" else 5000  # behind a border each call reads its row
    keys = [f"key {number}" for number in range(count)]
    state.put_many(keys, range(count))
    seen = []
    for key in backend.keys("n"):
        seen.append(key)
        backend.set_current_key(key)
        state.clear()
    assert sorted(seen) == sorted(keys)
    assert backend.size("n") == 0
    assert state.get_many(keys).null_count == count

"""Batch calls do what calls one by one do."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from idlestate.errors import RefusedError
from idlestate.retention.policy import FOREVER_MS, TimeDomain
from idlestate.retention.rules import NEVER_MS
from idlestate.retention.ttl_config import TTL_DISABLED, StateTtlConfig, StateVisibility
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import (
    ListStateDescriptor,
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


PAIR = pa.struct([("a", pa.string()), ("b", pa.int64())])


def number_state(backend, ttl):
    return backend.get_state(ValueStateDescriptor(name="n", value_type=pa.int64(), ttl=ttl))


@pytest.mark.parametrize("ttl", [TTL_DISABLED, BRIEF])
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


@pytest.mark.parametrize("ttl", [TTL_DISABLED, BRIEF])
@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.int64(), 1, "two"),
        (pa.int8(), 1, 128),
        (pa.int64(), 1, 0.5),
        (pa.string(), "one", 2),
        (pa.binary(), b"one", "two"),
        (pa.float64(), 1.5, "two"),
        (PAIR, ("x", 1), ("x", "y")),
        (PAIR, ("x", 1), "xy"),
        (PAIR, ("x", 1), {"b": 1, "a": "x"}),
        (pa.list_(pa.int64()), [1], ["two"]),
        (pa.list_(PAIR), [("x", 1)], [("x", "y")]),
        (pa.list_(pa.string()), ["x"], "xy"),
        (pa.list_(pa.string()), ["x"], {"x": 1}),
        (pa.list_(pa.int64()), [1], 1),
    ],
)
def test_a_value_of_another_type_leaves_the_batch_unwritten(backend, kind, good, bad, ttl):
    value = backend.get_state(ValueStateDescriptor(name="v", value_type=kind, ttl=ttl))
    items = backend.get_state(ListStateDescriptor(name="l", value_type=kind, ttl=ttl))
    entries = backend.get_state(
        MapStateDescriptor(name="m", key_type=pa.string(), value_type=kind, ttl=ttl)
    )
    backend.set_current_key("a")
    for call in (
        lambda: value.put_many(["a", "b"], [good, bad]),
        lambda: value.put_many([str(at) for at in range(40)], [good] * 39 + [bad]),
        lambda: items.add_many(["a", "b"], [good, bad]),
        lambda: entries.put_many(["a", "b"], ["x", "y"], [good, bad]),
        lambda: value.update(bad),
        lambda: items.add(bad),
        lambda: items.add_all([good, bad]),
        lambda: items.update([good, bad]),
        lambda: entries.put("x", bad),
        lambda: entries.put_all({"x": good, "y": bad}),
    ):
        with pytest.raises(StateTypeError):
            call()
    assert [backend.size(name) for name in "vlm"] == [0, 0, 0]


@pytest.mark.parametrize("ttl", [TTL_DISABLED, BRIEF])
def test_a_refused_value_leaves_the_stored_one(backend, ttl):
    value = number_state(backend, ttl)
    entries = backend.get_state(
        MapStateDescriptor(name="m", key_type=pa.string(), value_type=PAIR, ttl=ttl)
    )
    reduced = backend.get_state(
        ReducingStateDescriptor(
            name="r", value_type=PAIR, reduce=lambda _, there: (there[0], "many"), ttl=ttl
        )
    )
    backend.set_current_key("a")
    value.update(1)
    entries.put("x", ("x", 1))
    reduced.add(("x", 1))
    backend.commit()
    calls = [
        lambda: value.update("two"),
        lambda: value.put_many(["b", "a"], [2, "two"]),
        lambda: entries.put("x", ("x", "y")),
        lambda: reduced.add(("x", 2)),
        lambda: reduced.add_many(["b", "a"], [("x", 2), ("x", 3)]),
    ]
    if not ttl.enabled:  # with one, the value of an entry is not written
        calls.append(lambda: setattr(next(entries.iterator()), "value", ("x", "y")))
    for call in calls:
        with pytest.raises(StateTypeError):
            call()
    backend.commit()
    assert (value.value(), entries.get("x"), reduced.get()) == (1, ("x", 1), ("x", 1))
    assert [backend.size(name) for name in "nmr"] == [1, 1, 1]


@pytest.mark.parametrize("count", [1, 40])
def test_structs_of_arrow_arrays_are_tuples_at_every_depth(backend, count):
    kind = pa.struct([("at", pa.int64()), ("pairs", pa.list_(PAIR)), ("one", PAIR)])
    each = {"at": 1, "pairs": [{"a": "x", "b": 1}, None], "one": {"a": None, "b": 2}}
    rows = [each, {"at": None, "pairs": None, "one": None}, {"at": 2, "pairs": [], "one": None}]
    state = backend.get_state(ValueStateDescriptor(name="s", value_type=kind))
    keys = [f"key {number}" for number in range(3 * count)]
    state.put_many(keys, pa.array(rows * count, kind))
    assert state.get_many(keys).to_pylist() == rows * count
    backend.set_current_key(keys[0])
    assert state.value() == (1, [("x", 1), None], (None, 2))


@pytest.mark.parametrize(
    ("key_type", "good", "bad"),
    [
        (pa.string(), "a", 1),
        (pa.int64(), -5, "a"),
        (pa.int32(), 7, 2**31),
        (pa.bool_(), True, "a"),
        (pa.float64(), 0.5, "a"),
        (pa.struct([("a", pa.string()), ("b", pa.int64())]), ("x", 1), ("x", "y")),
    ],
)
@pytest.mark.parametrize("name", ["heap", "rocksdb", "runs"])
def test_keys_have_the_declared_type(tmp_path, name, key_type, good, bad):
    place = None if name == "heap" else tmp_path / "db"
    with open_backend(name, place, key_type=key_type) as backend:
        state = number_state(backend, TTL_DISABLED)
        state.put_many([good], [1])
        backend.set_current_key(good)
        assert state.value() == 1
        state.put_many(pa.array([good] * 20, key_type), range(20))
        assert state.get_many([good]).to_pylist() == [19]
        assert list(backend.keys("n")) == [good]
        for wrong in (bad, None):
            with pytest.raises(StateError):
                state.put_many([good, wrong], [1, 2])
            with pytest.raises(StateError):
                backend.set_current_key(wrong)
        assert state.value() == 19


@pytest.mark.parametrize("kind", ["list", "reducing", "aggregating"])
@pytest.mark.parametrize("ttl", [TTL_DISABLED, BRIEF])
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


@pytest.mark.parametrize("ttl", [TTL_DISABLED, BRIEF])
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
@pytest.mark.parametrize("ttl", [TTL_DISABLED, BRIEF])
def test_entries_without_a_value_or_a_user_key(backend, ttl, count):
    state = backend.get_state(
        MapStateDescriptor(name="m", key_type=pa.string(), value_type=pa.int64(), ttl=ttl)
    )
    keys, user_keys = [f"key {number}" for number in range(count)], [None, "x", ""] * count
    backend.set_current_key(keys[0])
    if backend.kind == "rocksdb" and ttl.enabled:
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
    keys = [f"key {number}" for number in range(5000)]
    state.put_many(keys, range(5000))
    seen = []
    for key in backend.keys("n"):
        seen.append(key)
        backend.set_current_key(key)
        state.clear()
    assert sorted(seen) == sorted(keys)
    assert backend.size("n") == 0
    assert state.get_many(keys).null_count == 5000

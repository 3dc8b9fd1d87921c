"""Keys and values have the declared type, in single calls and batches of all backends."""

import numpy as np
import pyarrow as pa
import pytest

from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from idlestate.state.errors import StateError, StateTypeError
from idlestate.timers.clock import FakeClock
from tests.state.golden_state import descriptor_of

BRIEF = StateTtlConfig(ttl_ms=100)
PAIR = pa.struct([("a", pa.string()), ("b", pa.int64())])


@pytest.fixture(params=["heap", "rocksdb", "runs"])
def backend(request, tmp_path):
    place = None if request.param == "heap" else tmp_path / "db"
    with open_backend(request.param, place, clock=FakeClock(1000)) as opened:
        yield opened


def number_state(backend, ttl):
    return backend.get_state(ValueStateDescriptor(name="n", value_type=pa.int64(), ttl=ttl))


@pytest.mark.parametrize("ttl", [None, BRIEF])
@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.int64(), 1, "two"),
        (pa.int8(), 1, 128),
        (pa.int64(), 1, 0.5),
        (pa.string(), "one", 2),
        (pa.binary(), b"one", "two"),
        (pa.float64(), 1.5, "two"),
        (pa.float64(), 1.5, 10**400),
        (pa.float32(), 1.5, 1e300),
        (pa.int64(), 1, 1.0),
        (pa.bool_(), True, 2),
        (pa.string(), "one", b"two"),
        (PAIR, ("x", 1), ("x", "y")),
        (PAIR, ("x", 1), "xy"),
        (PAIR, ("x", 1), {"b": 1, "a": "x"}),
        (pa.list_(pa.int64()), [1], ["two"]),
        (pa.list_(PAIR), [("x", 1)], [("x", "y")]),
        (pa.list_(pa.string()), ["x"], "xy"),
        (pa.list_(pa.string()), ["x"], {"x": 1}),
        (pa.list_(pa.int64()), [1], 1),
        (pa.list_(pa.int64()), [1], np.array(1)),
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


@pytest.mark.parametrize("ttl", [None, BRIEF])
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
    if ttl is None:  # with one, the value of an entry is not written
        calls.append(lambda: setattr(next(entries.iterator()), "value", ("x", "y")))
    for call in calls:
        with pytest.raises(StateTypeError):
            call()
    backend.commit()
    assert (value.value(), entries.get("x"), reduced.get()) == (1, ("x", 1), ("x", 1))
    assert [backend.size(name) for name in "nmr"] == [1, 1, 1]


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize(("at", "list_of"), [(pa.int64(), pa.list_), (pa.int8(), pa.large_list)])
def test_structs_of_arrow_arrays_are_tuples_at_every_depth(backend, at, list_of, count):
    kind = pa.struct([("at", pa.int64()), ("pairs", pa.list_(PAIR)), ("one", PAIR)])
    given = pa.struct([("at", at), ("pairs", list_of(PAIR)), ("one", PAIR)])
    each = {"at": 1, "pairs": [{"a": "x", "b": 1}, None], "one": {"a": None, "b": 2}}
    rows = [each, {"at": None, "pairs": None, "one": None}, {"at": 2, "pairs": [], "one": None}]
    state = backend.get_state(ValueStateDescriptor(name="s", value_type=kind))
    keys = [f"key {number}" for number in range(3 * count)]
    state.put_many(keys, pa.array(rows * count, given))
    assert state.get_many(keys).to_pylist() == rows * count
    backend.set_current_key(keys[0])
    assert state.value() == (1, [("x", 1), None], (None, 2))


@pytest.mark.parametrize(
    ("key_type", "good", "bad"),
    [
        (pa.string(), "a", 1),
        (pa.string(), "a", b"a"),
        (pa.binary(), b"a", "a"),
        (pa.int64(), -5, "a"),
        (pa.int64(), -5, 5.0),
        (pa.int32(), 7, 2**31),
        (pa.bool_(), True, "a"),
        (pa.float64(), 0.5, "a"),
        (pa.float32(), 0.5, -1e300),
        (pa.float64(), 0.5, np.array([0.5, 1.5])),
        (PAIR, ("x", 1), ("x", "y")),
        (PAIR, ("x", 1), {"b": 1, "a": "x"}),
    ],
)
@pytest.mark.parametrize("name", ["heap", "rocksdb", "runs"])
def test_keys_have_the_declared_type(tmp_path, name, key_type, good, bad):
    place = None if name == "heap" else tmp_path / "db"
    with open_backend(name, place, key_type=key_type) as backend:
        state = number_state(backend, None)
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


@pytest.mark.parametrize("ttl", [None, BRIEF])
@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [(pa.int64(), 1, "x"), (pa.int64(), 1, 1.0), (pa.int64(), 1, [1]), (PAIR, ("x", 1), ["x"])],
)
def test_user_keys_have_the_declared_type(backend, kind, good, bad, ttl):
    state = backend.get_state(
        MapStateDescriptor(name="m", key_type=kind, value_type=pa.int64(), ttl=ttl)
    )
    backend.set_current_key("a")
    state.put(good, 7)
    for call in (
        lambda: state.put(bad, 8),
        lambda: state.get(bad),
        lambda: state.contains(bad),
        lambda: state.remove(bad),
        lambda: state.get_many(["a", "a"], [good, bad]),
        lambda: state.put_many(["a", "a"], [good, bad], [8, 8]),
        lambda: state.remove_entries(["a", "a"], [good, bad]),
    ):
        with pytest.raises(StateTypeError):
            call()
    assert list(state.entries()) == [(good, 7)]


def test_a_struct_as_a_user_key_may_be_a_list(backend):
    state = backend.get_state(MapStateDescriptor(name="m", key_type=PAIR, value_type=pa.int64()))
    backend.set_current_key("a")
    state.put(["x", 1], 7)
    assert state.contains(["x", 1])
    assert state.get(["x", 1]) == state.get(("x", 1)) == 7
    state.remove(["x", 1])
    assert state.is_empty()


@pytest.mark.parametrize("ttl", [None, BRIEF])
def test_a_value_to_reduce_has_the_declared_type(backend, ttl):
    state = backend.get_state(descriptor_of("reducing", ttl))
    backend.set_current_key("a")
    state.add(1)
    for call in (
        lambda: state.add("2"),
        lambda: state.add_many(["b", "a"], [2, "2"]),
        lambda: state.add_many(["b", "a"], pa.array(["2", "2"])),
    ):
        with pytest.raises(StateTypeError):
            call()
    assert state.get_many(["a", "b"]).to_pylist() == [1, None]


@pytest.mark.parametrize(
    ("kind", "given", "found"),
    [
        (pa.int64(), pa.array([1, None], pa.int32()), [1, None]),
        (pa.int8(), np.array([1, 2]), [1, 2]),
        (pa.int64(), pa.array([True, False]), [1, 0]),
        (pa.int64(), pa.array([5, 6]).dictionary_encode(), [5, 6]),
        (pa.int64(), pa.nulls(2), [None, None]),
        (pa.float64(), pa.array([1, 2]), [1.0, 2.0]),
        (pa.float32(), np.array([0.5, np.inf]), [0.5, np.inf]),
        (pa.bool_(), pa.array([1, 0]), [True, False]),
        (pa.string(), pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.string(), pa.chunked_array([["a"], ["b"]], pa.large_string()), ["a", "b"]),
        (pa.string(), np.array(["a", "bc"]), ["a", "bc"]),
        (pa.binary(), pa.array([b"a", b"b"], pa.binary(1)), [b"a", b"b"]),
        (
            PAIR,
            pa.StructArray.from_arrays(
                [pa.array(["x", "y"], pa.large_string()), pa.array([1, 2], pa.int8())], ["a", "b"]
            ),
            [{"a": "x", "b": 1}, {"a": "y", "b": 2}],
        ),
    ],
)
def test_arrays_of_another_width_or_encoding_are_taken(backend, kind, given, found):
    state = backend.get_state(MapStateDescriptor(name="m", key_type=kind, value_type=kind))
    keys = [f"key {number}" for number in range(len(found))]
    state.put_many(keys, given, given)
    assert state.get_many(keys, given).to_pylist() == found
    assert state.get_many(keys, pa.array(found, kind)).to_pylist() == found


@pytest.mark.parametrize(
    ("kind", "good", "given"),
    [
        (pa.string(), "a", pa.array([1])),
        (pa.string(), "a", np.array([1])),
        (pa.string(), "a", pa.array([b"a"])),
        (pa.string(), "a", pa.array([1]).dictionary_encode()),
        (pa.binary(), b"a", pa.array(["a"])),
        (pa.int64(), 1, pa.array(["1"])),
        (pa.int64(), 1, np.array([1.0])),
        (pa.int64(), 1, pa.array([0], pa.timestamp("ms"))),
        (pa.int8(), 1, pa.array([128])),
        (pa.bool_(), True, pa.array([2])),
        (pa.float32(), 0.5, pa.array([1e300])),
        (
            PAIR,
            ("x", 1),
            pa.array([{"b": 1, "a": "x"}], pa.struct([PAIR.field("b"), PAIR.field("a")])),
        ),
        (PAIR, ("x", 1), pa.array([{"a": "x", "b": "1"}])),
    ],
)
@pytest.mark.parametrize("name", ["heap", "rocksdb", "runs"])
def test_arrays_of_another_sort_are_refused(tmp_path, name, kind, good, given):
    place = None if name == "heap" else tmp_path / "db"
    with open_backend(name, place, key_type=kind) as backend:
        state = backend.get_state(MapStateDescriptor(name="m", key_type=kind, value_type=kind))
        for call in (
            lambda: state.put_many([good], [good], given),
            lambda: state.put_many([good], given, [good]),
            lambda: state.put_many(given, [good], [good]),
            lambda: state.get_many([good], given),
            lambda: state.remove_many(given),
        ):
            with pytest.raises(StateTypeError):
                call()
        assert backend.size("m") == 0

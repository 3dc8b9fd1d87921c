"""A changed type of stored values is applied, or refused with state, field and types."""

import pyarrow as pa
import pytest

from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from idlestate.state.errors import StateKindError, StateMigrationError
from idlestate.timers.clock import FakeClock
from tests.state.golden_state import SumAndCount

BACKENDS = ["heap", "rocksdb", "runs"]
KINDS = ["value", "list", "map", "reducing", "aggregating"]
TTL = StateTtlConfig(ttl_ms=100)


def descriptor(kind, value_type, **more):
    match kind:
        case "list":
            return ListStateDescriptor(name="s", value_type=value_type, **more)
        case "map":
            return MapStateDescriptor(name="s", key_type=pa.string(), value_type=value_type, **more)
        case "reducing":
            return ReducingStateDescriptor(
                name="s", value_type=value_type, reduce=lambda left, right: left + right, **more
            )
        case "aggregating":
            return AggregatingStateDescriptor(
                name="s", value_type=value_type, aggregate=SumAndCount(), **more
            )
    return ValueStateDescriptor(name="s", value_type=value_type, **more)


def write(kind, state, value):
    {
        "value": lambda: state.update(value),
        "list": lambda: state.add_all([value, value]),
        "map": lambda: state.put("x", value),
        "reducing": lambda: state.add(value),
        "aggregating": lambda: state.add(value),
    }[kind]()


def read(kind, state):
    match kind:
        case "value":
            return state.value()
        case "list":
            return list(state.get())
        case "map":
            return state.get("x")
    return state.get()


@pytest.fixture(params=BACKENDS)
def again(request, tmp_path):
    """Writes with one descriptor, then gives the backend that finds it, in this or another kind."""

    def stored(kind, before, value, *, swapped=False):
        clock = FakeClock(1000)
        place = None if request.param == "heap" else tmp_path / "before"
        with open_backend(request.param, place, clock=clock) as backend:
            state = backend.get_state(before)
            backend.set_current_key("k")
            write(kind, state, value)
            backend.snapshot(tmp_path / "snapshot").finish()
        other = {"heap": "rocksdb", "rocksdb": "runs", "runs": "heap"}[request.param]
        name = other if swapped else request.param
        place = None if name == "heap" else tmp_path / "after"
        backend = open_backend(name, place, clock=clock, restore=[tmp_path / "snapshot"])
        backend.set_current_key("k")
        opened.append(backend)
        return backend

    opened = []
    yield stored
    for backend in opened:
        backend.close()


@pytest.mark.parametrize("kind", ["value", "list", "map", "reducing"])
@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        (pa.int8(), pa.int64(), -128),
        (pa.int32(), pa.int64(), 2**31 - 1),
        (pa.float32(), pa.float64(), 0.5),
    ],
)
@pytest.mark.parametrize("ttl", [None, TTL])
def test_numbers_are_widened(again, kind, before, after, value, ttl):
    backend = again(kind, descriptor(kind, before, ttl=ttl), value)
    state = backend.get_state(descriptor(kind, after, ttl=ttl))
    assert read(kind, state) == ([value, value] if kind == "list" else value)


def test_a_widened_type_holds_wider_values(again):
    backend = again("value", descriptor("value", pa.int8()), 7)
    state = backend.get_state(descriptor("value", pa.int64()))
    state.put_many([f"key {number}" for number in range(100)], [2**40] * 100)
    state.update(2**41)
    assert state.value() == 2**41
    assert set(state.get_many([f"key {number}" for number in range(100)]).to_pylist()) == {2**40}


@pytest.mark.parametrize("name", ["rocksdb", "runs"])
def test_a_widened_type_changes_no_other_state(tmp_path, name):
    def number(value_type):
        return ValueStateDescriptor(name="a", value_type=value_type)

    texts = [ValueStateDescriptor(name=f"a{mark}", value_type=pa.string()) for mark in ("'", "''")]
    for value_type, there in ((pa.int16(), 1), (pa.int32(), 2), (pa.int64(), 2)):
        with open_backend(name, tmp_path / "db") as backend:
            backend.set_current_key("k")
            backend.get_state(number(value_type)).update(7)
            for text in texts[:there]:  # one from the start, one since the type was widened
                backend.get_state(text).update(text.name)
            backend.commit()
    with open_backend(name, tmp_path / "db") as backend:
        backend.set_current_key("k")
        assert backend.get_state(number(pa.int64())).value() == 7
        assert [backend.get_state(text).value() for text in texts] == ["a'", "a''"]


OLD = pa.struct([("n", pa.int32()), ("gone", pa.string()), ("deep", pa.struct([("x", pa.int8())]))])


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_fields_are_added_dropped_moved_and_widened(again, kind, swapped):
    new = pa.struct(
        [("where", pa.string()), ("deep", pa.struct([("x", pa.int16())])), ("n", pa.int64())]
    )
    backend = again(kind, descriptor(kind, OLD), (7, "old", (1,)), swapped=swapped)
    state = backend.get_state(descriptor(kind, new, defaults={"where": "here"}))
    expected = ("here", (1,), 7)
    assert read(kind, state) == ([expected, expected] if kind == "list" else expected)


def test_an_accumulator_gets_a_field(again):
    old = pa.struct([("sum", pa.int32()), ("count", pa.int64())])
    new = pa.struct([("sum", pa.int64()), ("count", pa.int64()), ("most", pa.int64())])
    backend = again("aggregating", descriptor("aggregating", old), 5)
    state = backend.get_state(descriptor("aggregating", new, defaults={"most": None}))
    assert state.get() == (5, 1, None)


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (pa.string(), "state s: stored as int64, declared as string"),
        (pa.int32(), "state s: stored as int64, declared as int32"),
        (pa.float64(), "state s: stored as int64, declared as double"),
        (pa.list_(pa.int64()), "state s: stored as int64, declared as list"),
    ],
)
@pytest.mark.parametrize("kind", ["value", "list", "map", "reducing"])
def test_another_type_is_refused_and_nothing_is_lost(again, kind, after, text):
    backend = again(kind, descriptor(kind, pa.int64()), 7)
    with pytest.raises(StateMigrationError, match=text):
        backend.get_state(descriptor(kind, after))
    assert read(kind, backend.get_state(descriptor(kind, pa.int64()))) in (7, [7, 7])


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (pa.struct([("n", pa.int32()), ("new", pa.string())]), "field new: declared as string"),
        (pa.struct([("n", pa.int16())]), "field n: stored as int32, declared as int16"),
        (pa.struct([("gone", pa.int64())]), "field gone: stored as string, declared as int64"),
        (
            pa.struct([("deep", pa.struct([("x", pa.string())]))]),
            "field deep, field x: stored as int8, declared as string",
        ),
    ],
)
def test_a_field_that_does_not_fit_is_named(again, after, text):
    backend = again("value", descriptor("value", OLD), (7, "old", (1,)))
    with pytest.raises(StateMigrationError, match=f"state s, {text}"):
        backend.get_state(descriptor("value", after))
    assert backend.get_state(descriptor("value", OLD)).value() == (7, "old", (1,))


@pytest.mark.parametrize("kind", KINDS)
def test_another_kind_is_refused(again, kind):
    kept = pa.struct([("sum", pa.int64()), ("count", pa.int64())])
    stored = kept if kind == "aggregating" else pa.int64()
    backend = again(kind, descriptor(kind, stored), 7)
    for other in set(KINDS) - {kind}:
        with pytest.raises(
            StateKindError,
            match=f"stored as {kind}, declared as {other}: use {kind.capitalize()}StateDescriptor",
        ):
            backend.get_state(descriptor(other, stored))


def test_keys_of_a_map_keep_their_type(again):
    backend = again("map", descriptor("map", pa.int64()), 7)
    wrong = MapStateDescriptor(name="s", key_type=pa.int64(), value_type=pa.int64())
    with pytest.raises(StateMigrationError, match="map keys: stored as string, declared as int64"):
        backend.get_state(wrong)

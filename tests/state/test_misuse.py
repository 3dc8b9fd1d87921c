"""Wrong keys and values, and use after close: one clear error each, on all backends."""

from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from idlestate.errors import RefusedError
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.count_trigger import CountTrigger
from idlestate.state.descriptors import ValueStateDescriptor
from idlestate.state.errors import (
    BackendClosedError,
    NullValueError,
    StateError,
    StateTypeError,
)
from idlestate.state.idle import IdleRetention
from tests.state.golden_state import descriptor_of

PAIR = pa.struct([("shop", pa.string()), ("user", pa.int64())])


@pytest.fixture(params=["heap", "rocksdb", "runs"])
def opened(request, tmp_path):
    def do(**more):
        path = None if request.param == "heap" else tmp_path / "db"
        return open_backend(request.param, path, **more)

    return do


@pytest.mark.parametrize(
    ("key_type", "bad"),
    [
        (pa.string(), 5),
        (pa.string(), b"a"),
        (pa.int64(), "a"),
        (pa.int8(), 300),
        (PAIR, ("a",)),
        (PAIR, ("a", "b")),
        (PAIR, 5),
        (PAIR, {"shop": "a", "user": 1}),
    ],
)
def test_a_key_of_another_type_is_a_type_error_that_says_what_to_do(opened, key_type, bad):
    with opened(key_type=key_type) as backend:
        with pytest.raises(StateTypeError, match="pass a key of that type, or open") as raised:
            backend.set_current_key(bad)
        assert isinstance(raised.value, TypeError)
        assert str(key_type) in str(raised.value)


def test_a_namespace_of_another_type_is_refused_alike(opened):
    with opened() as backend:
        value, total = (
            backend.get_state(descriptor_of(kind, None, name=kind))
            for kind in ("value", "reducing")
        )
        for call in (
            lambda: value.set_current_namespace(5),
            lambda: total.merge_namespaces("w", ["v", 5]),
            lambda: total.merge_namespaces(5, ["v"]),
            lambda: backend.keys("value", 5),
        ):
            with pytest.raises(StateTypeError, match="5 is not a valid namespace"):
                call()


def test_a_batch_of_keys_of_another_type_is_refused_alike(opened):
    with opened() as backend:
        state = backend.get_state(descriptor_of("reducing", None))
        for keys in ([5], pa.array([b"\xff"])):
            with pytest.raises(StateTypeError, match="of the declared type"):
                state.add_many(keys, [1])
        assert backend.size("state") == 0


NO_BATCH = [None, 5, "ab", b"ab"]
"""A text is one key or value, not its characters."""


@pytest.mark.parametrize("given", NO_BATCH, ids=repr)
@pytest.mark.parametrize("ttl", [None, StateTtlConfig(ttl_ms=10)], ids=["", "ttl"])
def test_one_object_in_place_of_several_is_refused(opened, ttl, given):
    with opened() as backend:
        states = {
            kind: backend.get_state(descriptor_of(kind, ttl, name=kind))
            for kind in ("value", "strlist", "map", "reducing", "aggregating")
        }
        backend.set_current_key("a")
        calls = [
            lambda: states["strlist"].add_all(given),
            lambda: states["strlist"].update(given),
            lambda: states["value"].put_many(["a", "b"], given),
            lambda: states["map"].get_many(["a"], given),
            lambda: states["reducing"].add_many(["a", "b"], given),
            lambda: states["aggregating"].add_many(["a", "b"], given),
            lambda: states["reducing"].merge_namespaces("w", given),
            lambda: states["strlist"].merge_namespaces("w", given),
            *(lambda each=each: each.remove_many(given) for each in states.values()),
        ]
        if given is not None:
            calls.append(lambda: states["map"].put_all(given))
        for call in calls:
            with pytest.raises((StateTypeError, NullValueError)):
                call()
        assert {backend.size(kind) for kind in states} == {0}


def test_wrong_arguments_of_a_backend_are_refused(opened, tmp_path):
    with opened() as backend:
        state = backend.get_state(descriptor_of("value", None))
        timers = backend.timer_service("t", lambda timer: None, lambda timer: None)
        backend.set_current_key("a")
        idle = IdleRetention(Policy(), state, timers)
        for call in (
            lambda: backend.get_state("state"),
            lambda: backend.size(None),
            lambda: backend.size(["state"]),
            lambda: backend.keys("nobody"),
            lambda: backend.sweep(None, 5),
            lambda: backend.sweep(5, 0.5),
            lambda: backend.sweep(5, -1),
            lambda: backend.snapshot(None),
            lambda: backend.snapshot(tmp_path / "snapshot", "checkpoint"),
            lambda: backend.watermark.advance(0.5),
            lambda: state.put_many(["a", "b"], ["x"]),
            lambda: backend.timer_service("", lambda timer: None, lambda timer: None),
            lambda: backend.timer_service("\ud800", lambda timer: None, lambda timer: None),
            lambda: timers.count("event"),
            lambda: timers.timers(None),
            lambda: timers.take_due(TimeDomain.EVENT, 5, -1),
            lambda: timers.advance_watermark("5"),
            lambda: timers.register_many(TimeDomain.EVENT, ["a"], None, "\ud800"),
            lambda: idle.access("5"),
            lambda: idle.is_cleanup_due(None),
            lambda: CountTrigger(idle, state, "5"),
        ):
            with pytest.raises(RefusedError):
                call()


def test_a_snapshot_may_be_named_by_text(opened, tmp_path):
    with opened() as backend:
        backend.get_state(descriptor_of("value", None)).put_many(["a"], ["x"])
        backend.snapshot(str(tmp_path / "snapshot")).finish()
    with open_backend("heap", restore=[str(tmp_path / "snapshot")]) as backend:
        assert list(backend.keys("state")) == ["a"]


@pytest.mark.parametrize(
    "bad",
    [
        {"kind": None},
        {"path": 5, "kind": "rocksdb"},
        {"max_parallelism": "128"},
        {"max_parallelism": 1.5},
        {"groups": 5},
        {"groups": ()},
        {"clock": 5},
        {"key_type": "string"},
        {"namespace_type": 5},
        {"restore": None},
        {"restore": "snapshot"},
        {"restore": [5]},
    ],
    ids=repr,
)
def test_a_backend_with_arguments_of_another_type_is_not_opened(bad):
    with pytest.raises(RefusedError):
        open_backend(**{"kind": "heap"} | bad)


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("value", {"name": ""}),
        ("value", {"name": None}),
        ("value", {"name": "\ud800"}),
        ("value", {"value_type": "int64"}),
        ("value", {"ttl": "1h"}),
        ("value", {"value_type": pa.int64(), "default": "x"}),
        ("value", {"value_type": pa.int64(), "default": 0.5}),
        ("value", {"value_type": pa.int64(), "default": True}),
        ("value", {"value_type": pa.timestamp("us"), "default": np.datetime64("NaT")}),
        ("value", {"value_type": PAIR, "default": ("a", 0.5)}),
        ("value", {"value_type": PAIR, "default": {"shop": "a", "age": 2}}),
        ("list", {"value_type": PAIR, "defaults": {"user": "x"}}),
        ("list", {"value_type": PAIR, "defaults": {"user": 0.5}}),
        ("map", {"key_type": None}),
        ("reducing", {"reduce": None}),
        ("aggregating", {"aggregate": None}),
        ("aggregating", {"result_type": 5}),
    ],
)
def test_a_descriptor_with_fields_of_another_type_is_refused(kind, bad):
    with pytest.raises(StateTypeError, match="pass"):
        replace(descriptor_of(kind, None), **bad)


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (pa.int64(), 2.0),
        (pa.float64(), 1),
        (pa.date32(), date(2000, 1, 1)),
        (PAIR, ("a", None)),
        (PAIR, {"shop": "a"}),
    ],
    ids=str,
)
def test_a_default_that_can_be_stored_whole_is_taken(kind, default):
    ValueStateDescriptor(name="v", value_type=kind, default=default)


CALLS = {
    "value": ["value", "clear", ("update", "x"), ("get_many", ["a"]), ("put_many", ["a"], ["x"])],
    "list": ["get", "clear", ("add", 1), ("add_all", [1]), ("get_many", ["a"])],
    "map": ["entries", "clear", "is_empty", ("put", "x", 1), ("get", "x"), ("contains", "x")],
    "reducing": ["get", "clear", ("add", 1), ("add_many", ["a"], [1])],
    "aggregating": ["get", "clear", ("add", 1), ("merge_namespaces", "w", ["v"])],
}


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("ttl", [None, StateTtlConfig(ttl_ms=10)])
def test_state_of_a_closed_backend_is_refused(opened, kind, ttl):
    with opened() as backend:
        state = backend.get_state(descriptor_of(kind, ttl))
        backend.set_current_key("a")
    for call in [*CALLS[kind], ("remove_many", ["a"])]:
        name, *args = (call,) if isinstance(call, str) else call
        with pytest.raises(BackendClosedError, match="open it again"):
            list(getattr(state, name)(*args) or ())


def test_a_closed_backend_and_its_timers_are_refused(opened, tmp_path):
    with opened() as backend:
        backend.get_state(descriptor_of("value", None))
        timers = backend.timer_service("t", lambda timer: None, lambda timer: None)
        backend.set_current_key("a")
    for call in (
        lambda: backend.current_key,
        lambda: backend.set_current_key("a"),
        lambda: backend.get_state(descriptor_of("value", None)),
        lambda: backend.timer_service("t", lambda timer: None, lambda timer: None),
        lambda: backend.size("state"),
        lambda: backend.keys("state"),
        lambda: backend.sweep(1, 1),
        backend.usage,
        backend.compact,
        backend.commit,
        lambda: backend.fetch(["a"]),
        lambda: backend.snapshot(tmp_path / "snapshot"),
        lambda: timers.register_event_time_timer(None, 1),
        lambda: timers.register_processing_time_timer(None, 1),
        lambda: timers.delete_event_time_timer(None, 1),
        lambda: timers.register_many(TimeDomain.EVENT, ["a"], None, [1]),
        lambda: timers.take_due(TimeDomain.EVENT, 1, 1),
        lambda: timers.advance_watermark(1),
        lambda: timers.on_processing_time(1),
        lambda: timers.count(TimeDomain.EVENT),
        lambda: timers.timers(TimeDomain.EVENT),
    ):
        with pytest.raises(BackendClosedError) as raised:
            call()
        assert isinstance(raised.value, StateError)
    assert [path.name for path in tmp_path.glob("snapshot*")] == []
    backend.close()

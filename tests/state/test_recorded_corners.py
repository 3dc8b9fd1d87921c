"""Corners of Flink's semantics that few recordings reach, written in the form of the recordings."""

from contextlib import ExitStack

import pyarrow as pa
import pytest

from idlestate.retention.policy import FOREVER_MS, TimeDomain
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.timers.clock import FakeClock
from tests.state.golden_state import descriptor_of, raw_of, replay
from tests.state.test_golden_edge_cases import Scenario

SETTINGS = {
    "trace": "corner",
    "flink": "2.3.0",
    "update_type": "OnCreateAndWrite",
    "visibility": "NeverReturnExpired",
    "ttl_ms": 100,
    "cleanup": {
        "background": False,
        "full_snapshot": False,
        "incremental": None,
        "rocksdb_filter": None,
    },
    "max_parallelism": 128,
    "parallelism": 1,
    "seed": 0,
}

NOW = FOREVER_MS


def step(t, op, args, result, raw, size):
    return {"t": t, "key": "k", "op": op, "args": args, "result": result, "raw": raw, "size": size}


# TtlReduceFunction.reduce gives null when both values have expired. The heap's map keeps the entry
# with that null; the next add finds no value and stores its own.
REDUCING = [
    step(NOW - 50, "add", [3], None, [3, NOW - 50], 1),
    step(NOW, "add", [4], None, None, 1),
    step(NOW, "get", [], None, None, 1),
    step(NOW, "add", [5], None, [5, NOW], 1),
    step(NOW, "add", [6], None, None, 1),
    step(NOW, "add", [7], None, [7, NOW], 1),
    step(NOW, "get", [], None, None, 0),
]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("time", TimeDomain)
def test_a_reducing_state_whose_values_have_all_expired_becomes_empty(backend, time):
    trace = SETTINGS | {"kind": "reducing", "backend": backend, "ops": REDUCING}
    assert replay(trace, compare_sizes=backend == "hashmap", time=time) == len(REDUCING)


def test_an_emptied_reducing_state_survives_batches_sweeps_and_snapshots(tmp_path):
    clock, ttl = FakeClock(NOW - 50), StateTtlConfig(ttl_ms=100, cleanup_in_background=False)
    with open_backend("heap", clock=clock) as backend:
        state = backend.get_state(descriptor_of("reducing", ttl))
        backend.set_current_key("k")
        state.add(3)
        clock.advance(50)
        state.add(4)
        state.table.settle()
        report = backend.sweep(NOW, 100, records=True)
        assert (report.removed, report.expired["state"].num_rows) == (0, 0)
        assert state.get_many(pa.array(["k"] * 20)).null_count == 20
        assert (raw_of(state, "k"), backend.size("state")) == (None, 1)
        backend.snapshot(tmp_path / "snapshot").finish()
    with open_backend("heap", clock=clock, restore=[tmp_path / "snapshot"]) as backend:
        state = backend.get_state(descriptor_of("reducing", ttl))
        assert (raw_of(state, "k"), backend.size("state")) == (None, 1)


# The walk reaches the expired entry first: the one behind it is neither renewed nor removed.
STOPPED_WALK = [
    step(1000, "put", ["b", 2], None, {"b": [2, 1000]}, 1),
    step(1000, "put", ["a", 1], None, {"a": [1, 1000], "b": [2, 1000]}, 1),
    step(1060, "put", ["b", 3], None, {"a": [1, 1000], "b": [3, 1060]}, 1),
    step(1100, "iterator_remove", [["a", "b"]], None, {"b": [3, 1060]}, 1)
    | {"error": "IllegalStateException"},
]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb", "runs"])
def test_a_walk_that_an_error_ends_follows_the_recorded_order(backend):
    trace = SETTINGS | {
        "kind": "map",
        "backend": backend,
        "update_type": "OnReadAndWrite",
        "visibility": "ReturnExpiredIfNotCleanedUp",
        "ops": STOPPED_WALK,
    }
    assert replay(trace, compare_sizes=backend != "rocksdb") == len(STOPPED_WALK)


REMOVED_TWICE = [
    ('put("a", 1)', {"a": [1, 1000]}, 1000, None),
    ("it = iterator(); it.next(); it.remove(); it.remove()", {}, 1050, "IllegalStateException"),
    ('put("a", 1)', {"a": [1, 1050]}, 1050, None),
    ('iterator_remove(["a"])', {}, 1150, "IllegalStateException"),
]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb", "runs"])
def test_a_scenario_removes_an_entry_twice_or_after_it_expired(backend, tmp_path):
    trace = SETTINGS | {
        "scenario": "map remove twice",
        "kind": "map",
        "backend": backend,
        "visibility": "ReturnExpiredIfNotCleanedUp",
        "steps": [],
    }
    with ExitStack() as stack:
        run = Scenario(trace, tmp_path, stack, TimeDomain.PROCESSING)
        for call, raw, t, error in REMOVED_TWICE:
            size = 0 if backend == "rocksdb" and not raw else 1
            run.step(
                {"t": t, "do": call, "raw": raw, "size": size} | ({"error": error} if error else {})
            )


def do(call, raw, size, *result):
    return {"t": 1000, "do": call, "raw": raw, "size": size} | (
        {"result": result[0]} if result else {}
    )


# Without TTL nothing lies between the caller and the state that holds the default.
DEFAULT = [
    do("value()", "nothing yet", 0, "nothing yet"),
    do('update("x")', "x", 1),
    do("value()", "x", 1, "x"),
    do("clear()", "nothing yet", 0),
    do("value()", "nothing yet", 0, "nothing yet"),
]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_raw_value_without_ttl_is_the_default_where_nothing_is_stored(backend, tmp_path):
    trace = SETTINGS | {
        "scenario": "value default of the descriptor, Disabled",
        "kind": "value",
        "backend": backend,
        "update_type": "Disabled",
        "steps": DEFAULT,
    }
    with ExitStack() as stack:
        run = Scenario(trace, tmp_path, stack, TimeDomain.PROCESSING)
        for each in DEFAULT:
            run.step(each)

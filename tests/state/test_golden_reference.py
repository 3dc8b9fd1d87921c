"""Reference tables: what configurations and restores Flink takes, and what becomes of them."""

import re
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest

from idlestate.errors import RefusedError
from idlestate.retention.policy import Policy, TimeDomain, UpdateType
from idlestate.retention.setting_error import SettingError
from idlestate.retention.state_ttls import ttls_of_states
from idlestate.retention.ttl_config import (
    DEFAULT_PERIODIC_COMPACTION_MS,
    DEFAULT_QUERY_TIME_AFTER,
    CompactionCleanup,
    IncrementalCleanup,
    StateTtlConfig,
    StateVisibility,
)
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import ValueStateDescriptor
from idlestate.state.key_groups import MAX_PARALLELISM_LIMIT
from idlestate.state.snapshot import SnapshotMode
from idlestate.timers.clock import FakeClock
from idlestate.timers.stored_queue import READ_AHEAD
from tests.golden_files import FLINK, read_traces
from tests.state.golden_state import BACKENDS, descriptor_of, error_name

pytestmark = pytest.mark.golden

UNITS = {"ns": 1e-6, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def millis(text):
    number, unit = text.split()
    found = int(number) * UNITS[unit]
    return int(found) if found == int(found) else found


def built(case):  # noqa: PLR0912 - one branch for each recorded call
    """The configuration that a recorded chain of builder calls describes."""
    found = {}
    for name, arguments in re.findall(r"(\w+)\(([^()]*)\)", case):
        given = [each.strip() for each in arguments.split(",") if each.strip()]
        match name:
            case "newBuilder":
                found["ttl_ms"] = millis(given[0])
            case "disableCleanupInBackground":
                found["cleanup_in_background"] = False
            case "cleanupFullSnapshot":
                found["full_snapshot"] = True
            case "cleanupIncrementally":
                found["incremental"] = IncrementalCleanup(int(given[0]), given[1] == "true")
            case "cleanupInRocksdbCompactFilter":
                more = [millis(each) for each in given[1:]]
                found["compaction"] = CompactionCleanup(int(given[0]), *more)
            case "updateTtlOnReadAndWrite":
                found["update_type"] = UpdateType.ON_READ_AND_WRITE
            case "updateTtlOnCreateAndWrite":
                found["update_type"] = UpdateType.ON_CREATE_AND_WRITE
            case "returnExpiredIfNotCleanedUp":
                found["visibility"] = StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP
            case "neverReturnExpired":
                found["visibility"] = StateVisibility.NEVER_RETURN_EXPIRED
            case "build":
                pass
            case other:
                pytest.fail(f"unknown call {other!r} in {case!r}")
    if ttl := re.match(r"ttl (-?\d+ \w+|0)( \(.*\))?$", case):
        found["ttl_ms"] = 0 if ttl[1] == "0" else millis(ttl[1])
    if case == "updateType null":
        found["update_type"] = None
    return StateTtlConfig(**({"ttl_ms": 1000} | found))


def in_flink(member):
    return next(name for name, ours in FLINK.items() if ours is member)


def described(config):
    incremental, compaction = config.incremental_in_force, config.compaction
    return {
        "enabled": True,
        "update_type": in_flink(config.update_type),
        "visibility": in_flink(config.visibility),
        "time_characteristic": {TimeDomain.PROCESSING: "ProcessingTime"}[config.time],
        "ttl_ms": config.ttl_ms,
        "cleanup_in_background": config.cleanup_in_background,
        "in_full_snapshot": config.full_snapshot,
        "in_rocksdb_compact_filter": config.compaction_in_force is not None,
        "incremental": incremental and [incremental.size, incremental.run_for_every_record],
        "rocksdb_filter": compaction and [compaction.query_time_after, compaction.periodic_ms],
    }


def test_golden_ttl_config():
    traces = read_traces("ttl_config", "case")
    for trace in traces:
        case = trace["case"]
        if case == "enableTimeToLive on a value descriptor with a default value":
            ValueStateDescriptor(
                name="v", value_type=pa.int64(), default=1, ttl=StateTtlConfig(ttl_ms=1)
            )
            assert trace["error"] is None
            continue
        if case == "DISABLED":
            assert not trace["enabled"]
            assert declared("v as value<int>").ttl is None
            continue
        error, config = None, None
        try:
            config = built(case)
        except (TypeError, ValueError) as raised:
            error = error_name(raised)
        if case == "updateType null":
            assert error == "IllegalArgumentException"  # like any other word
            continue
        assert error == trace.get("error"), trace
        if config is not None and "enabled" in trace:
            assert {"case": case} | described(config) == trace
    print(f"ttl_config: {len(traces)} cases")


TYPES = {"int": pa.int32(), "long": pa.int64(), "string": pa.string()}


@contextmanager
def opened(trace, folder, clock, restore=(), key_type=None):
    kind = BACKENDS[trace["backend"]]
    place = None if kind == "heap" else folder
    with open_backend(kind, place, clock=clock, restore=restore, key_type=key_type) as backend:
        yield backend


def declared(case):
    """Name and descriptor of a case such as `v as value<int> with ttl 500`."""
    name, kind, types, rest = re.match(r"(\w+) as (\w+)<([\w,]+)>(.*)$", case).groups()
    ttl = None
    if with_ttl := re.match(r" with ttl ?(\d*)$", rest):
        ttl = StateTtlConfig(ttl_ms=int(with_ttl[1] or 1000))
    value = TYPES[types.split(",")[-1]]
    made = descriptor_of(kind, ttl, name=name)
    changes = {"value_type": value}
    if kind == "map":
        changes["key_type"] = TYPES[types.split(",")[0]]
    return replace(made, **changes)


def shown(state, kind):
    match kind:
        case "map":
            return dict(state.entries())
        case "list":
            return list(state.get())
        case "value":
            return state.value()
    return state.get()


def first_run(trace, folder, clock):
    """The recorded state: a value, a map, a list, and a value with a time to live."""
    with opened(trace, folder / "db", clock) as backend:
        backend.set_current_key("k")
        backend.get_state(declared("v as value<long>")).update(42)
        backend.get_state(declared("m as map<string,long>")).put("x", 7)
        backend.get_state(declared("l as list<long>")).add_all([1, 2])
        backend.get_state(declared("t as value<long> with ttl")).update(9)
        snapshot = folder / "snapshot"
        backend.snapshot(snapshot, SnapshotMode(trace["snapshot"])).finish()
    return snapshot


def second_run(trace, snapshot, folder, clock):
    """What the case finds after the restore."""
    case = trace["case"]
    if case.startswith("unregistered state survives"):
        with opened(trace, folder / "db2", clock, [snapshot]) as backend:
            again = folder / "again"
            backend.snapshot(again, SnapshotMode(trace["snapshot"])).finish()
        snapshot, case = again, "v as value<long>"
    other_key = pa.int64() if case.startswith("key serializer long") else None
    if case == "unknown name" or other_key is not None:
        case = "nobody as value<long>"
    case = re.sub(r" without ttl$", "", case)
    with opened(trace, folder / "db3", clock, [snapshot], other_key) as backend:
        backend.set_current_key("k")
        descriptor = declared(case)
        return shown(backend.get_state(descriptor), descriptor.kind.value)


def test_golden_restore_compatibility(tmp_path):
    traces = read_traces("restore_compatibility", "case")
    for number, trace in enumerate(traces):
        folder, clock = tmp_path / str(number), FakeClock(1000)
        folder.mkdir()
        snapshot = first_run(trace, folder, clock)
        error = value = None
        try:
            value = second_run(trace, snapshot, folder, clock)
        except Exception as raised:  # noqa: BLE001 - compared with the recorded one
            error = error_name(raised)
        assert (error, value) == (trace.get("error"), trace.get("value")), trace
    print(f"restore_compatibility: {len(traces)} cases")


# What our defaults are beside Flink's, by Flink's option; options not listed have no counterpart.
SAME_DEFAULTS = {
    "state.backend.rocksdb.timer-service.cache-size": READ_AHEAD,
    "state.backend.rocksdb.compaction.filter.query-time-after-num-entries": (
        DEFAULT_QUERY_TIME_AFTER
    ),
    "state.backend.rocksdb.compaction.filter.periodic-compaction-time": (
        f"PT{DEFAULT_PERIODIC_COMPACTION_MS // 3_600_000}H"
    ),
}
DIFFERENT_DEFAULTS = {
    "execution.checkpointing.incremental": (False, "links to files cost nothing"),
    "state.backend.rocksdb.use-bloom-filter": (False, "batches look for keys that are not there"),
    "state.backend.rocksdb.timer-service.factory": ("ROCKSDB", "the queue is the backend's own"),
}


def test_golden_config_defaults():
    traces = {trace["key"]: trace["default"] for trace in read_traces("config_defaults", "key")}
    for key, ours in SAME_DEFAULTS.items():
        assert traces.get(key, ours) == ours, key
    for key, (theirs, _) in DIFFERENT_DEFAULTS.items():
        assert traces.get(key, theirs) == theirs, key
    assert MAX_PARALLELISM_LIMIT == 32768


def test_golden_idle_retention_config():
    """Flink 1.13 checks max - min and then drops max; our policies keep it.

    What Flink makes of a single duration is the policy file's factor 1.5 too, and the rule is on
    from 2 ms.
    """
    traces = read_traces("idle_retention_config", "call")
    for trace in traces:
        if "error" in trace or trace["effective_min_ms"] < 0:
            continue  # our files refuse both, see docs/state.md
        low, high = trace["effective_min_ms"], trace["effective_max_ms"]
        assert high == low * 3 // 2
        assert Policy(idle_min_ms=low, idle_max_ms=high, min_gap_ms=0).idle_on is (low > 1)
    print(f"idle_retention_config: {len(traces)} calls")


INPUTS = {"leftState": "a", "rightState": "b"}
"""Which input of the recorded queries a state keeps rows of; the other states have one input."""


def derived(trace):
    """The states of each node of the plan with their times to live, as we derive them."""
    hints = dict(re.findall(r"'(\w+)'='(\w+)'", trace["sql"]))
    nodes = trace.get("stateful_nodes") or [{"state": [{"name": name} for name in INPUTS]}]
    return [
        ttls_of_states(
            {each["name"]: INPUTS.get(each["name"], "A") for each in node["state"]},
            f"{millis(trace['table_exec_state_ttl'])}ms",
            {name: text.replace("min", "m") for name, text in hints.items()},
        )
        for node in nodes
    ]


def recorded(state):
    ttl_ms = millis(state["ttl"])
    return StateTtlConfig(ttl_ms=ttl_ms) if ttl_ms else None


def test_golden_sql_plan_state_ttl():
    """The option and the hints of a query give each state of its plan the recorded ttl."""
    for trace in read_traces("sql_plan_state_ttl", "case"):
        if "error" in trace:
            with pytest.raises(ValueError, match=r"input|duration"):
                derived(trace)
            continue
        plan = [
            {each["name"]: recorded(each) for each in node["state"]}
            for node in trace["stateful_nodes"]
        ]
        assert derived(trace)[: len(plan)] == plan, trace["case"]


@pytest.mark.parametrize("default", ["0s", "5ms"])
def test_a_hint_holds_for_its_input_alone(default):
    found = ttls_of_states({"l": "a", "r": "b"}, default, {"b": "7ms"})
    assert found["r"] == StateTtlConfig(ttl="7ms")
    assert (found["l"] is not None) is (default != "0s")
    with pytest.raises(SettingError, match=r"'z': input not found; available: a, b"):
        ttls_of_states({"l": "a", "r": "b"}, default, {"z": "7ms"})
    with pytest.raises(RefusedError, match="hints is None; pass a dict"):
        ttls_of_states({"l": "a", "r": "b"}, default, None)
    with pytest.raises(ValueError, match="is negative"):
        ttls_of_states({"l": "a"}, default, {"a": "-1ms"})

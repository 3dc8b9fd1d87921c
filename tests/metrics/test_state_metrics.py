"""Metrics of keyed state in a program without Spark: for each backend, from a scrape."""

import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from idlestate import StateMetrics
from idlestate.errors import RefusedError
from idlestate.metrics.due_times import DueTimes
from idlestate.metrics.state_metrics import EXPORTED
from idlestate.retention.policy import FOREVER_MS, TimeDomain
from idlestate.retention.setting_error import SettingError
from idlestate.state import StateTtlConfig, ValueStateDescriptor, open_backend
from idlestate.testing import FakeClock
from tests.patience import PATIENCE_S
from tests.prometheus_programs import programs  # noqa: F401 - a fixture

UID, KEYS = "sessions", 300
NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
VISITS = ValueStateDescriptor(
    name="visits", value_type=pa.int64(), ttl=StateTtlConfig(ttl="1h", cleanup_in_background=False)
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW_MS)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry, clock: FakeClock) -> Iterator[StateMetrics]:
    with StateMetrics(0, registry=registry, clock=clock) as made:
        yield made


def shown(registry: CollectorRegistry) -> dict[str, float]:
    """By name, and further labels, what is exported of the operator."""
    found = {}
    for family in registry.collect():
        for sample in family.samples:
            if sample.labels.get("operator") == UID and "le" not in sample.labels:
                more = [value for label, value in sample.labels.items() if label != "operator"]
                found[" ".join([sample.name.removeprefix("idlestate_"), *more])] = sample.value
    return found


def dues(registry: CollectorRegistry) -> tuple[float, float, float]:
    """The lag in seconds, and the keys due within an hour and a day."""
    found = shown(registry)
    return found["expiry_lag_seconds"], found["keys_due 1h"], found["keys_due 24h"]


@pytest.mark.parametrize("kind", ["heap", "rocksdb", "runs"])
def test_figures_are_those_of_the_backend(
    kind: str, tmp_path: Path, clock: FakeClock, metrics: StateMetrics, registry: CollectorRegistry
) -> None:
    path = None if kind == "heap" else tmp_path
    with open_backend(kind, path, clock=clock) as backend:  # type: ignore[arg-type]
        visits = backend.get_state(VISITS)
        visits.put_many([f"user {number}" for number in range(KEYS)], range(KEYS))
        backend.commit()
        metrics.note(UID, backend, VISITS)
        found = shown(registry)
        assert found["live_keys"] == KEYS
        assert found["retention_ttl_seconds"] == 3600
        assert found["keys_expired_total ttl"] == found["sweep_last_success_timestamp_seconds"] == 0
        used = backend.usage()
        assert found["state_bytes"] == used.total_bytes - used.dead_bytes
        assert ("disk_bytes state" in found) == (kind != "heap")

        clock.advance(3_600_000)
        report = metrics.sweep(UID, backend, clock.now_ms(), KEYS // 2)
        assert (report.removed, report.done) == (KEYS // 2, False)
        assert shown(registry)["sweep_last_success_timestamp_seconds"] == 0
        while not metrics.sweep(UID, backend, clock.now_ms(), KEYS, records=True).done:
            pass
        metrics.note(UID, backend, VISITS)
        found = shown(registry)
        assert found["keys_expired_total ttl"] == KEYS
        assert found["live_keys"] == 0
        assert found["sweep_last_success_timestamp_seconds"] == clock.now_ms() / 1000
        assert found["sweep_duration_seconds_count"] >= 2


def test_a_watermark_is_shown_once_there_is_one(
    metrics: StateMetrics, registry: CollectorRegistry
) -> None:
    state = ValueStateDescriptor(
        name="s", value_type=pa.int64(), ttl=StateTtlConfig(ttl="1s", time=TimeDomain.EVENT)
    )
    with open_backend("heap") as backend:
        backend.get_state(state)
        metrics.note(UID, backend, state)
        assert "watermark_timestamp_seconds" not in shown(registry)
        backend.watermark.advance(5_000)
        metrics.note(UID, backend, state)
        assert shown(registry)["watermark_timestamp_seconds"] == 5


def test_state_without_a_time_to_live_has_no_retention(
    metrics: StateMetrics, registry: CollectorRegistry
) -> None:
    state = ValueStateDescriptor(name="s", value_type=pa.int64())
    with open_backend("heap") as backend:
        backend.get_state(state)
        metrics.note(UID, backend, state)
    assert shown(registry)["retention_ttl_seconds"] == 0


def test_a_port_serves_what_promtool_accepts(
    programs: Path,  # noqa: F811
    metrics: StateMetrics,
) -> None:
    with open_backend("heap") as backend:
        backend.get_state(VISITS)
        metrics.note(UID, backend, VISITS)
        metrics.sweep(UID, backend, NOW_MS, 10)
    assert metrics.url is not None
    with urllib.request.urlopen(metrics.url, timeout=PATIENCE_S) as reply:
        text = reply.read()
    named = {name.name for name in EXPORTED if name.name.encode() in text}
    assert len(named) == len(EXPORTED) - 2  # it has no disk and no watermark
    done = subprocess.run(
        [str(programs / "promtool"), "check", "metrics"],
        input=text,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_needs_a_place_and_gives_it_back(registry: CollectorRegistry) -> None:
    with pytest.raises(SettingError, match="needs a port or a registry; pass port=9108"):
        StateMetrics()
    with pytest.raises(RefusedError, match="pass the port as a number and the address as a string"):
        StateMetrics(0, address=5)
    with StateMetrics(registry=registry) as metrics:
        assert metrics.url is None
        with pytest.raises(SettingError, match="Duplicated"):
            StateMetrics(registry=registry)
        metrics.stop()
    with StateMetrics(0, registry=registry) as metrics:
        assert metrics.url is not None
        port = int(metrics.url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(RefusedError, match=str(port)):
            StateMetrics(port)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """The folder of a backend."""
    return None if request.node.callspec.params["kind"] == "heap" else tmp_path


@pytest.mark.parametrize("kind", ["heap", "rocksdb", "runs"])
def test_lag_and_due_keys_follow_the_clock_without_a_call(
    kind: Literal["heap", "rocksdb", "runs"],
    place: Path | None,
    clock: FakeClock,
    metrics: StateMetrics,
    registry: CollectorRegistry,
) -> None:
    day = ValueStateDescriptor(
        name="s", value_type=pa.int64(), ttl=StateTtlConfig(ttl="2d", cleanup_in_background=False)
    )
    with open_backend(kind, place, clock=clock) as backend:
        state = backend.get_state(day)
        state.put_many(["ada", "bob"], [1, 2])
        clock.advance(3_600_000)
        state.put_many(["eve"], [3])
        metrics.note(UID, backend, day)
        assert dues(registry) == (0, 0, 0)
        clock.advance(23 * HOUR_MS - 1)
        assert dues(registry) == (0, 0, 0)
        clock.advance(1)
        assert dues(registry) == (0, 0, 2)
        clock.advance(23 * HOUR_MS)
        assert dues(registry) == (0, 2, 3)
        clock.advance(HOUR_MS)
        assert dues(registry) == (0, 3, 3)
        clock.advance(1_500)
        assert dues(registry) == (1.5, 3, 3)
        assert metrics.sweep(UID, backend, clock.now_ms(), KEYS).removed == 2
        metrics.note(UID, backend, day)
        assert dues(registry) == (0, 1, 1)


@pytest.mark.parametrize("kind", ["heap", "rocksdb", "runs"])
def test_event_time_is_judged_by_the_watermark_that_was_noted(
    kind: Literal["heap", "rocksdb", "runs"],
    place: Path | None,
    clock: FakeClock,
    metrics: StateMetrics,
    registry: CollectorRegistry,
) -> None:
    hour = ValueStateDescriptor(
        name="s", value_type=pa.int64(), ttl=StateTtlConfig(ttl="1h", time=TimeDomain.EVENT)
    )
    with open_backend(kind, place, clock=clock) as backend:
        state = backend.get_state(hour)
        backend.watermark.advance(1_000)
        state.put_many(["ada"], [1])
        backend.watermark.advance(HOUR_MS + 999)
        metrics.note(UID, backend, hour)
        clock.advance(100 * HOUR_MS)
        assert dues(registry) == (0, 1, 1)
        backend.watermark.advance(HOUR_MS + 4_000)
        metrics.note(UID, backend, hour)
        assert dues(registry) == (3, 1, 1)
        while not backend.sweep(backend.watermark.now_ms(), KEYS).done:
            pass
        metrics.note(UID, backend, hour)
        assert dues(registry) == (0, 0, 0)


@pytest.mark.parametrize("kind", ["heap", "rocksdb", "runs"])
def test_timers_of_both_domains_are_due(
    kind: Literal["heap", "rocksdb", "runs"],
    place: Path | None,
    clock: FakeClock,
    metrics: StateMetrics,
    registry: CollectorRegistry,
) -> None:
    plain = ValueStateDescriptor(name="s", value_type=pa.int64())
    with open_backend(kind, place, clock=clock) as backend:
        backend.get_state(plain)
        timers = backend.timer_service("idle", lambda _: None, lambda _: None)
        metrics.note(UID, backend, plain, timers)
        assert dues(registry) == (0, 0, 0)
        times = [NOW_MS + HOUR_MS, NOW_MS + 2 * HOUR_MS]
        timers.register_many(TimeDomain.PROCESSING, ["ada", "bob"], None, times)
        timers.register_many(TimeDomain.EVENT, ["ada", "eve"], None, [5_000, 7_000])
        metrics.note(UID, backend, plain, timers)
        assert dues(registry) == (0, 1, 2)  # there is no watermark yet
        timers.advance_watermark(4_999)
        metrics.note(UID, backend, plain, timers)
        assert dues(registry) == (0, 3, 4)
        assert shown(registry)["watermark_timestamp_seconds"] == 4.999
        backend.watermark.advance(9_000)  # as a program does that takes timers without firing them
        metrics.note(UID, backend, plain, timers)
        assert dues(registry) == (4, 3, 4)
        clock.advance(HOUR_MS + 6_000)
        assert dues(registry) == (6, 4, 4)
        timers.take_due(TimeDomain.PROCESSING, clock.now_ms(), 10)
        metrics.note(UID, backend, plain, timers)
        assert dues(registry) == (4, 3, 3)
        timers.take_due(TimeDomain.EVENT, 9_000, 10)
        metrics.note(UID, backend, plain, timers)
        assert dues(registry) == (0, 1, 1)


def test_nothing_is_due_of_state_that_nothing_ends(
    metrics: StateMetrics, registry: CollectorRegistry
) -> None:
    plain = ValueStateDescriptor(name="s", value_type=pa.int64())
    with open_backend("heap") as backend:
        backend.get_state(plain).put_many(["ada"], [1])
        metrics.note(UID, backend, plain)
    assert not [name for name in shown(registry) if name.startswith(("keys_due", "expiry_lag"))]


def test_values_that_expire_in_event_time_are_due_by_the_watermark(
    metrics: StateMetrics, registry: CollectorRegistry
) -> None:
    hour = ValueStateDescriptor(
        name="s", value_type=pa.int64(), ttl=StateTtlConfig(ttl="1h", time=TimeDomain.EVENT)
    )
    with open_backend("heap") as backend:
        state = backend.get_state(hour)
        metrics.note(UID, backend, hour)  # before the first watermark
        assert dues(registry) == (0, 0, 0)
        backend.watermark.advance(0)
        state.put_many(["ada"], [1])
        backend.watermark.advance(NOW_MS)
        state.put_many(["bob", "eve"], [1, 2])
        metrics.note(UID, backend, hour)
        assert dues(registry) == ((NOW_MS - HOUR_MS) / 1000, 3, 3)
        backend.watermark.advance(FOREVER_MS)
        metrics.note(UID, backend, hour)
        assert dues(registry)[1:] == (3, 3)


@given(
    times_ms=st.lists(st.integers(0, 10 * HOUR_MS), max_size=32),
    now_ms=st.integers(0, 12 * HOUR_MS),
    within_ms=st.integers(0, 24 * HOUR_MS),
)
def test_due_times_are_counted_as_one_by_one(
    times_ms: list[int], now_ms: int, within_ms: int
) -> None:
    due = DueTimes.of(np.array(times_ms, dtype=np.int64), None)
    assert due.lag_ms(now_ms) == max([now_ms - each for each in times_ms if each <= now_ms] + [0])
    assert due.count(now_ms, within_ms) == sum(each <= now_ms + within_ms for each in times_ms)

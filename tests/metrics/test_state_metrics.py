"""Metrics of keyed state in a program without Spark: for each backend, from a scrape."""

import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

from idlestate import StateMetrics
from idlestate.errors import RefusedError
from idlestate.metrics.state_metrics import EXPORTED
from idlestate.retention.policy import TimeDomain
from idlestate.state import StateTtlConfig, ValueStateDescriptor, open_backend
from idlestate.testing import FakeClock
from tests.prometheus_programs import programs  # noqa: F401 - a fixture

UID, KEYS = "sessions", 300
NOW_MS = 1_790_000_000_000
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
    with urllib.request.urlopen(metrics.url, timeout=10) as reply:
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
    with pytest.raises(ValueError, match="needs a port or a registry; pass port=9108"):
        StateMetrics()
    with StateMetrics(registry=registry) as metrics:
        assert metrics.url is None
        with pytest.raises(ValueError, match="Duplicated"):
            StateMetrics(registry=registry)
        metrics.stop()
    with StateMetrics(0, registry=registry) as metrics:
        assert metrics.url is not None
        port = int(metrics.url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(RefusedError, match=str(port)):
            StateMetrics(port)

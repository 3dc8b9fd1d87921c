"""The driver's own sidecars are shown by the driver: they have no port to be scraped."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from idlestate.metrics import families, sidecar_metrics
from idlestate.metrics.driver_metrics import DriverMetrics
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.pipeline.session_metrics import SessionMetrics
from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.client import private_sidecar_metrics
from idlestate.sidecar.client.client import SidecarClient
from idlestate.sidecar.client.private_sidecar import (
    FOLDER,
    private_sidecar,
    running_sidecars,
    stop_private_sidecars,
)
from idlestate.sidecar.client.private_sidecar_metrics import SHOWN, PrivateSidecarMetrics
from idlestate.sidecar.protocol.connection import Connection
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.timers.clock import FakeClock, SystemClock
from tests.metrics.some_operators import OF_BUDGETS, OF_TWO_INPUTS
from tests.patience import PATIENCE_S
from tests.reference import Rule
from tests.sidecar.sidecar_world import SPEC, policy_processing
from tests.stopped_process import stop

LONG = Rule(ttl_ms=3_600_000)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("c")
    stop_private_sidecars()


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape waits for sidecars on a machine that is busy too."""
    monkeypatch.setattr(private_sidecar_metrics, "PATIENCE_S", PATIENCE_S)


def fill(checkpoint: Path, uid: str, keys: int) -> None:
    """A sidecar of a checkpoint, with an operator of so many keys."""
    address = private_sidecar(checkpoint, "heap").address
    declaration = Declaration.of(uid, SPEC, TimeDomain.PROCESSING, 4)
    with closing(Connection(address)) as connection:
        policy = policy_processing(LONG)
        declare = {"declaration": declaration.to_json(), "policy": policy.to_json()}
        connection.call("declare", declare)
    with SidecarClient(address.place, uid) as client:
        client.add_many({"k": [f"key-{number}" for number in range(keys)], "v": [1] * keys})


@pytest.mark.usefixtures("_patient")
def test_all_that_a_sidecar_exports_is_shown_by_its_driver(folder: Path) -> None:
    fill(folder, "counts", 30)
    exporter = Exporter(FakeClock())
    PrivateSidecarMetrics(exporter, SystemClock())
    driver = DriverMetrics(exporter)
    stale = OperatorStatistics(operator="counts", live_keys=1, next_end_ms=None)
    driver.show(stale)
    shown = exporter.samples()
    assert shown[families.LIVE_KEYS] == {("counts",): 30}
    assert shown[families.EXPIRY_LAG] == {("counts",): 0}
    assert shown[families.RETENTION_TTL] == {("counts",): 3600}
    assert shown[sidecar_metrics.WORKERS] == {(): 1}
    assert shown[families.BATCH_DURATION].keys() == {("counts",)}, "only the driver knows batches"
    rocksdb = {name for name in SHOWN if name.name.startswith("idlestate_rocksdb_")}
    assert set(SHOWN) - rocksdb - OF_BUDGETS - OF_TWO_INPUTS <= shown.keys()


@pytest.mark.usefixtures("_patient")
def test_a_page_shows_the_next_life_to_end_of_a_sidecar(folder: Path) -> None:
    fill(folder, "counts", 30)
    metrics = SessionMetrics(Exporter(FakeClock()))
    policy = policy_processing(LONG)
    metrics.driver.show(OperatorStatistics(operator="counts", policy=policy, next_end_ms=None))
    metrics.driver.show(OperatorStatistics(operator="elsewhere", live_keys=1, next_end_ms=None))
    metrics.driver.show(OperatorStatistics(operator="spark", live_keys=1, next_end_ms=5))
    found = {each.operator: each for each in metrics.at(0)}
    now_ms = SystemClock().now_ms()
    end_ms = found["counts"].next_end_ms
    assert end_ms is not None
    assert now_ms < end_ms <= now_ms + LONG.ttl_ms
    assert found["counts"].expiry_lag_ms(end_ms + 7) == 7
    assert found["elsewhere"].expiry_lag_ms(now_ms) is None
    assert found["spark"].next_end_ms == 5
    stop_private_sidecars()
    assert metrics.at(0)[0].next_end_ms is None


@pytest.mark.usefixtures("_patient")
def test_figures_of_several_processes_are_summed(folder: Path) -> None:
    fill(folder / "a", "one", 3)
    fill(folder / "b", "two", 4)
    exporter = Exporter(FakeClock())
    PrivateSidecarMetrics(exporter, SystemClock())
    shown = exporter.samples()
    assert shown[families.LIVE_KEYS] == {("one",): 3, ("two",): 4}
    assert shown[sidecar_metrics.WORKERS] == {(): 2}
    assert len(running_sidecars()) == 2


def test_one_that_hangs_does_not_hold_up_a_scrape(folder: Path) -> None:
    fill(folder, "counts", 3)
    exporter = Exporter(FakeClock())
    PrivateSidecarMetrics(exporter, SystemClock())
    DriverMetrics(exporter).show(OperatorStatistics(operator="counts", live_keys=1))
    pid = int((folder / FOLDER / "state" / "lock").read_text())
    stop(pid)
    try:
        assert exporter.samples()[families.LIVE_KEYS] == {("counts",): 1}
    finally:
        os.kill(pid, signal.SIGCONT)

"""A real Prometheus scrapes every metric that there is, in the format that it asks for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from idlestate.metrics import families
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.exposition import MetricsServer
from idlestate.metrics.families import Name
from idlestate.metrics.samples import BucketCounts, Samples
from idlestate.metrics.sidecar_metrics import OF_SIDECAR
from idlestate.metrics.spark_metrics import OF_SPARK
from idlestate.timers.clock import FakeClock
from tests.prometheus_programs import asked, programs, scraping  # noqa: F401 - a fixture
from tests.sidecar.sidecar_process import wait_for

EVERY = tuple(dict.fromkeys((*families.ALL, *OF_SIDECAR, *OF_SPARK)))
OWN = {families.OVERFLOWED_SERIES, families.BUILD_INFO}


def one(name: Name) -> float | BucketCounts:
    return BucketCounts.none(name).with_value(name, 1.0) if name.buckets else 7.0


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    samples: Samples = {name: {tuple("x" for _ in name.labels): one(name)} for name in EVERY}
    exporter = Exporter(FakeClock())
    exporter.add(EVERY, lambda _: {name: of for name, of in samples.items() if name not in OWN})
    with MetricsServer(exporter, 0) as server:
        yield server


@pytest.fixture
def prometheus(
    programs: Path,  # noqa: F811
    server: MetricsServer,
    tmp_path: Path,
) -> Iterator[str]:
    """Its address."""
    with scraping(programs, f"127.0.0.1:{server.port}", tmp_path) as address:
        yield address


def test_prometheus_takes_in_every_metric(prometheus: str) -> None:
    wait_for(lambda: asked(prometheus, 'up{job="idlestate"} == 1'))
    query = 'count by (__name__) ({job="idlestate", __name__=~"idlestate_.*"})'
    series = wait_for(lambda: asked(prometheus, query))
    found = {each["metric"]["__name__"] for each in series}
    wanted = {f"{name.name}_bucket" if name.buckets else name.name for name in EVERY}
    assert wanted <= found
    assert asked(prometheus, "idlestate_live_keys")[0]["value"][1] == "7"

"""A real Prometheus scrapes every metric that there is, in the format that it asks for."""

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from idlestate.metrics import names
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.exposition import MetricsServer
from idlestate.metrics.names import Name
from idlestate.metrics.samples import BucketCounts, Samples
from idlestate.metrics.sidecar_metrics import OF_SIDECAR
from idlestate.metrics.spark_metrics import OF_SPARK
from idlestate.timers.clock import FakeClock
from tests.prometheus_programs import programs  # noqa: F401 - a fixture
from tests.sidecar.sidecar_process import wait_for

EVERY = tuple(dict.fromkeys((*names.ALL, *OF_SIDECAR, *OF_SPARK)))
OWN = {names.OVERFLOWED_SERIES, names.BUILD_INFO}
CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: idlestate
    static_configs: [{{targets: ["{target}"]}}]
"""


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
    config = tmp_path / "prometheus.yaml"
    config.write_text(CONFIG.format(target=f"127.0.0.1:{server.port}"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        str(programs / "prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield address
        finally:
            process.kill()
            process.wait()


def asked(address: str, query: str) -> list[Any]:
    """The series of a query; none while Prometheus starts."""
    try:
        with urlopen(f"http://{address}/api/v1/query?query={quote(query)}", timeout=10) as reply:
            result: list[Any] = json.loads(reply.read())["data"]["result"]
            return result
    except (URLError, ConnectionError):
        return []


def test_prometheus_takes_in_every_metric(prometheus: str) -> None:
    wait_for(lambda: asked(prometheus, 'up{job="idlestate"} == 1'))
    query = 'count by (__name__) ({job="idlestate", __name__=~"idlestate_.*"})'
    series = wait_for(lambda: asked(prometheus, query))
    found = {each["metric"]["__name__"] for each in series}
    wanted = {f"{name.name}_bucket" if name.buckets else name.name for name in EVERY}
    assert wanted <= found
    assert asked(prometheus, "idlestate_live_keys")[0]["value"][1] == "7"

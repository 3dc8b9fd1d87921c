"""Prometheus's own programs, unpacked where that is possible; without them their tests skip."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[1]
CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: idlestate
    static_configs: [{{targets: ["{target}"]}}]
"""


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of promtool, amtool and jsonnet."""
    done = subprocess.run(
        [str(ROOT / "scripts/prometheus.sh")], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return Path(done.stdout.strip())


@contextmanager
def scraping(programs: Path, target: str, folder: Path) -> Iterator[str]:
    """A Prometheus that scrapes a host and port each second; its own address."""
    config = folder / "prometheus.yaml"
    config.write_text(CONFIG.format(target=target))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        str(programs / "prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield address
        finally:
            process.kill()
            process.wait()


def asked(address: str, query: str) -> list[Any]:
    """The series of a query; none while Prometheus starts."""
    try:
        with urlopen(
            f"http://{address}/api/v1/query?query={quote(query)}", timeout=PATIENCE_S
        ) as reply:
            result: list[Any] = json.loads(reply.read())["data"]["result"]
            return result
    except (URLError, ConnectionError):
        return []

"""Prometheus's own programs, unpacked where that is possible; without them their tests skip."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of promtool, amtool and jsonnet."""
    done = subprocess.run(
        [str(ROOT / "scripts/prometheus.sh")], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return Path(done.stdout.strip())

"""The benchmark of the sidecar runs, in a small form."""

import os
import re
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "sidecar.py"


def test_it_measures_writes_with_workers_look_ups_and_starts() -> None:
    small = ["--backend", "heap", "--keys", "3000", "--start-keys", "3000", "--calls", "1"]
    small += ["--rounds", "1"]
    parts = ["--only", "writes", "--only", "looks", "--only", "start"]
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), *small, *parts],
        capture_output=True,
        text=True,
        check=False,
        # The files beside it are imported by name.
        env={key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"},
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"workers 2 to 1: [0-9.]+ times .* could make it [0-9.]+", done.stdout)
    assert re.search(r"look-ups alone: p50 .* p99", done.stdout)
    assert re.search(r"start on 3,000 keys: [0-9.]+ s", done.stdout)
    assert re.search(r"redis: [0-9,]+ rows/s|Redis is left out", done.stdout)

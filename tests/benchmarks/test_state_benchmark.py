"""The benchmark of keyed state runs, and prints a figure for every operation and aim."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_every_operation_of_every_contestant_is_measured():
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "state.py"), "--keys", "300"],
        capture_output=True,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for kind in ("heap", "rocksdb"):
        for on in ("plain", "ttl"):
            mine = [line for line in lines if line.startswith(f"{kind:8} {on:5} ")]
            assert len(mine) == 14
            for name in ("value get", "map put", "list append", "timer fire", "batch value update"):
                assert any(name in line for line in mine), name
    for kind in ("heap", "rocksdb", "runs"):
        for name in (
            "sweep, records wanted",
            "put into each of 1,000 maps of 15 ",
            "append to each",
        ):
            assert any(line.startswith(f"{kind:8} {name}") for line in lines), name
    for aim in ("2 M/s: ", "0.8 of rocksdict: ", "at most 30 %: ", "64: ", "1.3: "):
        assert any(aim in line for line in lines), aim
    assert "redis" in done.stdout.lower()

"""Ten kills of queries with a sidecar; `make crash BACKEND=rocksdb` has more."""

import sys
from pathlib import Path

import pytest

from tests.crash.sidecar_suite import carry_out

SEED = 20250303
FILES = 12
KILLS = 10
PER_HISTORY = 4


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize("backend", ["rocksdb"])
def test_ten_kills_lose_and_double_nothing(tmp_path: Path, backend: str) -> None:
    report = carry_out(tmp_path, backend, SEED, FILES, KILLS, per_history=PER_HISTORY)
    print(report, file=sys.stderr)
    assert [str(difference) for difference in report.differences] == []
    assert len(report.kills) >= KILLS
    assert 2 * report.in_flight >= len(report.kills)

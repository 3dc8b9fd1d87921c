"""Kills of a sidecar in the middle of exchanges and writes, on each store."""

import sys

import pytest

from tests.crash.exchange_suite import carry_out
from tests.lengths import short_and_long


@short_and_long("kills", 3, 10)
@pytest.mark.parametrize(
    ("backend", "workers"),
    [
        pytest.param("rocksdb", 1, marks=pytest.mark.long),
        pytest.param("heap", 1, marks=pytest.mark.long),
        ("rocksdb", 2),
    ],
)
def test_kills_of_a_sidecar_lose_and_double_nothing(
    tmp_path_factory: pytest.TempPathFactory, backend: str, workers: int, kills: int
) -> None:
    report = carry_out(tmp_path_factory.mktemp("x"), backend, 20_250_303, kills, workers)
    print(report, file=sys.stderr)
    assert report.kills == kills
    assert report.in_flight >= kills // 2

"""Ten kills of a sidecar in the middle of exchanges and writes, on each store."""

import sys

import pytest

from tests.crash.exchange_suite import carry_out


@pytest.mark.parametrize(("backend", "workers"), [("rocksdb", 1), ("heap", 1), ("rocksdb", 2)])
def test_rule_6_ten_kills_of_a_sidecar_lose_and_double_nothing(
    tmp_path_factory: pytest.TempPathFactory, backend: str, workers: int
) -> None:
    report = carry_out(tmp_path_factory.mktemp("x"), backend, 20_250_303, 10, workers)
    print(report, file=sys.stderr)
    assert report.kills == 10
    assert 2 * report.in_flight >= report.kills

"""Ten kills of a sidecar in the middle of exchanges and writes, on each store."""

import sys

import pytest

from tests.crash.exchange_suite import carry_out


@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
def test_rule_6_ten_kills_of_a_sidecar_lose_and_double_nothing(
    tmp_path_factory: pytest.TempPathFactory, backend: str
) -> None:
    report = carry_out(tmp_path_factory.mktemp("x"), backend, 20_250_303, 10)
    print(report, file=sys.stderr)
    assert report.kills == 10
    assert 2 * report.in_flight >= report.kills

"""Five kills, one before the final sweep and one in processing time; `make crash` has more."""

import sys
from pathlib import Path

import pytest

from tests.crash.history import Aim
from tests.crash.suite import EVENT, PROCESSING, Plan, carry_out

SEED = 20250303
FILES = 8
TODO = [
    Plan(EVENT, (Aim.DRIVER, Aim.REPLAY, Aim.WORKER, Aim.SWEEP)),
    Plan(PROCESSING, (Aim.DRIVER,)),
]


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_five_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    todo = iter(TODO)
    report = carry_out(tmp_path, SEED, FILES, lambda histories, kills: next(todo, None))
    print(report, file=sys.stderr)
    assert [str(difference) for difference in report.differences] == []
    aims = [kill.aim for kill in report.kills]
    assert len(aims) >= 5
    assert {Aim.DRIVER, Aim.REPLAY, Aim.WORKER, Aim.SWEEP} <= set(aims)
    assert 2 * report.in_flight >= len(aims)

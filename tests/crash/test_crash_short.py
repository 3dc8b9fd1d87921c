"""Ten kills of every kind, over every sink and several operators; `make crash` has more.

A worker or an executor of two is replaced while the query runs on, so that several kills cost one
start of a JVM; whoever kills a driver pays for another start.
"""

import sys
from pathlib import Path

import pytest

from tests.crash.history import TWO_EXECUTORS, Aim
from tests.crash.suite import EVENT, PROCESSING, Plan, carry_out

SEED = 20250303
FILES = 12
KILLS = 10
PLANS = [
    Plan(EVENT, (Aim.MERGE, Aim.REPLAY)),
    Plan(EVENT, (Aim.WORKER, Aim.EXECUTOR) * 2, TWO_EXECUTORS, "table", "process"),
    Plan(PROCESSING, (Aim.REMOVAL,), sink="function"),
    Plan(EVENT, (Aim.NOTED, Aim.COMPACT), sink="file", operator="join_asof"),
    Plan(EVENT, (Aim.SWEEP,), sink="function", operator="session"),
]


pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc"),
]


def test_ten_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    plans = iter(PLANS)

    def next_plan(_: int, kills: int) -> Plan | None:
        """A query that is done before all its kills landed is followed by another one."""
        missing = (Aim.DRIVER,) * (KILLS - kills)
        return next(plans, None) or (Plan(EVENT, missing) if missing else None)

    report = carry_out(tmp_path, SEED, FILES, next_plan)
    print(report, file=sys.stderr)
    assert [str(difference) for difference in report.differences] == []
    aims = [kill.aim for kill in report.kills]
    assert len(aims) >= KILLS
    assert {aim for plan in PLANS for aim in plan.aims} <= set(aims)
    assert 2 * report.in_flight >= len(aims)

"""Ten kills of queries with a sidecar; `make crash BACKEND=rocksdb` has more.

A sidecar or its worker is started again beside a query that goes on; a kill of anything else costs
another start of a JVM.
"""

import random
import sys
from pathlib import Path

import pytest

from tests.crash.sidecar_history import Victim
from tests.crash.sidecar_suite import SidecarPlan, carry_out

SEED = 20250303
FILES = 12
KILLS = 10
PLANS = [
    SidecarPlan((Victim.SIDECAR, Victim.TASK, Victim.SIDECAR, Victim.DRIVER), operator="process"),
    SidecarPlan((Victim.WORKER, Victim.SIDECAR) * 2 + (Victim.TASK, Victim.ALL), is_served=True),
]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize("backend", ["rocksdb"])
def test_ten_kills_lose_and_double_nothing(tmp_path: Path, backend: str) -> None:
    plans = iter(PLANS)

    def next_plan(_: int, kills: int, draw: random.Random) -> SidecarPlan | None:
        """A query that is done before all its kills landed is followed by another one."""
        missing = (Victim.SIDECAR,) * (KILLS - kills)
        return next(plans, None) or (SidecarPlan(missing) if missing else None)

    report = carry_out(tmp_path, backend, SEED, FILES, next_plan)
    print(report, file=sys.stderr)
    assert [str(difference) for difference in report.differences] == []
    assert len(report.kills) >= KILLS
    assert {kill.victim for kill in report.kills} == set(Victim)
    assert 2 * report.in_flight >= len(report.kills)

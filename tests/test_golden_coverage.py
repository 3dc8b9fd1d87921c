"""Which recordings run where, in one place; a file that nobody replays fails this test.

What is not compared, and why:

    ttl_incremental_heap   sizes, and results under ReturnExpiredIfNotCleanedUp or of isEmpty: they
                           follow the order of Flink's hash slots. Sizes are bounded instead
    all, by event time     traces whose clock runs back: a watermark does not
    timers                 listings of the RocksDB queue: Flink's iterator misses timers
    timers, idle_cleanup   the order of timers of one time: nobody promised one
    config_defaults        options without a counterpart here
    idle_retention_config  pairs that our files refuse, and negative ones that Flink takes
    sql_plan_state_ttl     the SQL planner: the states of a query and their inputs are given
"""

import re
from pathlib import Path

import pytest

from tests.golden_files import golden_dir

pytestmark = pytest.mark.golden

HERE = Path(__file__).parent


def test_golden_files_are_all_replayed():
    replayed = set()
    for path in HERE.rglob("test_golden_*.py"):
        replayed |= set(re.findall(r'"([a-z_]+)"', path.read_text()))
    there = {path.name.split(".")[0] for path in golden_dir().glob("*.jsonl*")}
    assert there, golden_dir()
    assert there <= replayed, f"nobody replays {sorted(there - replayed)}"

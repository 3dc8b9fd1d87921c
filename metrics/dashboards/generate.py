"""Writes the dashboards beside this file: `make dashboards`."""

import sys
from pathlib import Path

from idlestate.metrics.dashboards.grafana_json import render
from idlestate.metrics.dashboards.operator_dashboard import OPERATOR
from idlestate.metrics.dashboards.overview_dashboard import OVERVIEW
from idlestate.metrics.dashboards.policy_dashboard import POLICY
from idlestate.metrics.dashboards.spark_dashboard import SPARK

BOARDS = (OVERVIEW, OPERATOR, POLICY, SPARK)
FOLDER = Path(__file__).resolve().parent

if __name__ == "__main__":
    for board in BOARDS:
        (FOLDER / f"{board.uid}.json").write_text(render(board), encoding="utf-8")
        sys.stdout.write(f"wrote {FOLDER / board.uid}.json\n")

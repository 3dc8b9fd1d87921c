"""Grafana's own types accept the dashboards, and refuse one with any of twelve faults."""

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from idlestate.metrics.dashboards.generate import BOARDS, FOLDER
from tests.metrics.dashboard_types import refused

ROOT = Path(__file__).resolve().parents[2]
Json = dict[str, Any]


def first(dashboard: Json, kind: str) -> Json:
    return next(panel for panel in dashboard["panels"] if panel["type"] == kind)


def defaults(dashboard: Json, kind: str = "timeseries") -> Json:
    found: Json = first(dashboard, kind)["fieldConfig"]["defaults"]
    return found


FAULTS: dict[str, Callable[[Json], object]] = {
    "schema_version_as_text": lambda d: d.update(schemaVersion="42"),
    "unknown_field_of_a_panel": lambda d: first(d, "timeseries").update(titel="x"),
    "unknown_word_of_a_legend": lambda d: first(d, "timeseries")["options"]["legend"].update(
        placement="botom"
    ),
    "no_description": lambda d: first(d, "timeseries").pop("description"),
    "no_unit": lambda d: defaults(d).pop("unit"),
    "unknown_style": lambda d: defaults(d)["custom"].update(drawStyle="lines"),
    "unknown_field_of_a_query": lambda d: first(d, "timeseries")["targets"][0].update(exprr="up"),
    "unknown_colour_mode": lambda d: first(d, "stat")["options"].update(colorMode="valu"),
    "refresh_of_a_variable_as_text": lambda d: d["templating"]["list"][1].update(refresh="x"),
    "width_as_text": lambda d: first(d, "timeseries")["gridPos"].update(w="12"),
    "unknown_mode_of_thresholds": lambda d: defaults(d).update(
        thresholds={"mode": "abs", "steps": []}
    ),
    "unknown_field_of_the_dashboard": lambda d: d.update(editabel=False),
}


def test_the_dashboards_fit_grafanas_types_and_twelve_faults_do_not(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(ROOT / "scripts/grafana_types.sh")], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    dashboards = {
        board.uid: json.loads((FOLDER / f"{board.uid}.json").read_text()) for board in BOARDS
    }
    faulty = {}
    for name, fault in FAULTS.items():
        faulty[name] = copy.deepcopy(dashboards["overview"])
        fault(faulty[name])
    found = refused(Path(done.stdout.strip()), tmp_path, dashboards | faulty)
    assert {name: found[name] for name in dashboards if name in found} == {}
    assert set(found) == set(FAULTS)

"""The dashboards: the committed JSON is what the code makes, and every panel says what to do."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from idlestate.metrics.dashboards.dashboard_model import Board, Kind, Panel
from idlestate.metrics.dashboards.generate import BOARDS, FOLDER
from idlestate.metrics.dashboards.grafana_json import board_json, render

ROOT = Path(__file__).resolve().parents[2]
PANELS = [(board, panel) for board in BOARDS for row in board.rows for panel in row.panels]
IDS = [f"{board.uid}: {panel.title}" for board, panel in PANELS]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_the_committed_file_is_what_the_code_makes(board: Board) -> None:
    text = (FOLDER / f"{board.uid}.json").read_text(encoding="utf-8")
    assert text == render(board), "run make dashboards"


def test_every_file_in_the_folder_is_a_dashboard() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {board.uid for board in BOARDS}


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=IDS)
def test_a_panel_says_what_it_shows_and_what_to_do(board: Board, panel: Panel) -> None:
    assert panel.title[0].isupper()
    assert len(panel.title) <= 40
    assert len(panel.description) >= 40
    assert panel.description.endswith(".")
    assert panel.queries
    for query in panel.queries:
        assert query.expr.count("(") == query.expr.count(")")
        assert query.legend
        is_general = any(word in query.expr for word in ("ALERTS", 'job=~"$job"'))
        assert "{$of" in query.expr or is_general, f"{query.expr}: ignores what was chosen"
    if panel.kind is Kind.TABLE:
        assert len({query.legend for query in panel.queries}) == len(panel.queries)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_panels_have_ids_and_places_of_their_own(board: Board) -> None:
    panels: list[dict[str, Any]] = board_json(board)["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_an_axis_starts_at_0_unless_values_are_differences() -> None:
    """Grafana cuts off what is below the least value of an axis."""
    for board in BOARDS:
        titles = {panel.title for row in board.rows for panel in row.panels if panel.is_signed}
        for panel in board_json(board)["panels"]:
            if panel["type"] == "row":
                continue
            exprs = [target["expr"].replace("time() - ", "") for target in panel["targets"]]
            is_signed = any(" - " in expr for expr in exprs)
            assert (panel["title"] in titles) == is_signed
            assert ("min" in panel["fieldConfig"]["defaults"]) != is_signed


def test_panel_and_alert_agree_on_what_has_no_retention() -> None:
    alerts = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())["groups"]
    (alert,) = (
        rule["expr"]
        for group in alerts
        for rule in group["rules"]
        if rule["alert"] == "IdlestateNoRetention"
    )
    (expr,) = (
        query.expr
        for _, panel in PANELS
        if panel.title == "Operators without retention"
        for query in panel.queries
    )
    ends = [re.findall(r"idlestate_\w+", each.partition(" unless ")[2]) for each in (alert, expr)]
    assert len(ends[0]) == 4
    assert ends[0] == ends[1]


def test_a_query_names_the_variables_of_its_dashboard() -> None:
    spark = next(board for board in BOARDS if board.uid == "spark")
    text = json.dumps(board_json(spark))
    assert 'idlestate_spark_state_rows{job=~\\"$job\\", query=~\\"$query\\"}' in text
    assert "$of" not in text


def test_grafana_is_provisioned_with_the_datasource_and_the_folder() -> None:
    folder = ROOT / "deploy/grafana/provisioning"
    provider = yaml.safe_load((folder / "dashboards/idlestate.yaml").read_text())["providers"][0]
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    mounts = dict(each.split(":")[:2] for each in compose["services"]["grafana"]["volumes"])
    mounted = {inside: (ROOT / "deploy" / outside).resolve() for outside, inside in mounts.items()}
    assert mounted[provider["options"]["path"]] == FOLDER
    assert mounted["/etc/grafana/provisioning"] == folder
    source = yaml.safe_load((folder / "datasources/prometheus.yaml").read_text())["datasources"][0]
    ports = [each.split(":")[-1] for each in compose["services"]["sidecar"]["ports"]]
    assert source["url"].rpartition(":")[2] in ports

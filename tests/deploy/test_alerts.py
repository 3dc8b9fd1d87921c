"""Rules and alerts: promtool accepts them, each alert fires when it should and only then."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from idlestate.metrics.dashboards.generate import BOARDS
from idlestate.service.cli import main
from tests.deploy.alert_cases import CASES, Case
from tests.docs_pages import anchors, page
from tests.prometheus_programs import programs  # noqa: F401 - a fixture

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/prometheus"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
}


def run(*command: str | Path, folder: Path = FOLDER) -> str:
    done = subprocess.run(
        [str(each) for each in command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_and_amtool_accept_the_files(
    programs: Path,  # noqa: F811
) -> None:
    run(programs / "promtool", "check", "rules", "rules.yaml", "alerts.yaml")
    run(programs / "promtool", "check", "config", "prometheus.yaml")
    run(programs / "amtool", "check-config", "alertmanager.yaml")


def as_one_of_many(series: dict[str, str], number: int) -> list[dict[str, str]]:
    """These series of an instance and an operator of their own."""
    own = {
        name.replace('instance="a"', f'instance="{number}"').replace(
            'operator="u"', f'operator="{number}"'
        ): values
        for name, values in series.items()
    }
    return [{"series": name, "values": values} for name, values in own.items()]


def promtool_check(case: Case, number: int, *, fires: bool) -> dict[str, Any]:
    """Some alerts name the operator, some the instance, some both."""
    firing = f'ALERTS{{alertname="{case.alert}", alertstate="firing"'
    expr = f'count({firing}, operator="{number}"}} or {firing}, instance="{number}"}})'
    fired = [{"labels": "{}", "value": 1}] if fires else []
    return {"expr": expr, "eval_time": f"{case.at_minutes}m", "exp_samples": fired}


@pytest.mark.parametrize("step_minutes", [1, 30])
def test_an_alert_fires_when_it_should_and_only_then(
    programs: Path,  # noqa: F811
    tmp_path: Path,
    step_minutes: int,
) -> None:
    """promtool evaluates all alerts for each of its tests: all cases are one, side by side."""
    series: list[dict[str, str]] = []
    checks: list[dict[str, Any]] = []
    for case in CASES:
        if case.step_minutes == step_minutes:
            for made in (case.fires, *case.silent):
                series += as_one_of_many(made, len(checks))
                checks.append(promtool_check(case, len(checks), fires=made is case.fires))
    document = {
        "rule_files": [str(FOLDER / "rules.yaml"), str(FOLDER / "alerts.yaml")],
        "evaluation_interval": f"{step_minutes}m",
        # Alerts read what the rules record. Without an order promtool takes one by chance.
        "group_eval_order": ["idlestate", "idlestate-alerts"],
        "tests": [
            {
                "interval": f"{step_minutes}m",
                "input_series": series,
                "promql_expr_test": checks,
            }
        ],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(document))
    run(programs / "promtool", "test", "rules", tmp_path / "tests.yaml")


def test_every_alert_has_cases_and_its_section_in_the_runbook() -> None:
    assert {case.alert for case in CASES} == set(ALERTS)
    sections = anchors("docs/runbook.md")
    for name, alert in ALERTS.items():
        assert alert["annotations"]["runbook_url"] == f"docs/runbook.md#{name.lower()}"
        assert name.lower() in sections, name
        assert alert["labels"]["severity"] in {"warning", "critical"}
        assert {"summary", "description"} < set(alert["annotations"])
    named = re.findall(r"^## (Idlestate\w+)$", page("docs/runbook.md"), re.M)
    assert set(named) == set(ALERTS)


def test_the_runbook_names_panels_and_commands_that_exist() -> None:
    text = page("docs/runbook.md")
    titles = {panel.title for board in BOARDS for row in board.rows for panel in row.panels}
    named = set(re.findall(r"\*([A-Z][^*\n]+)\*", text))
    assert len(named) > 5
    assert named <= titles
    commands = re.findall(r"`idlestate ([a-z ]+)", text)
    assert len(commands) > 3
    for command in commands:
        done = CliRunner().invoke(main, [*command.split(), "--help"])
        assert done.exit_code == 0, command


def test_alerts_that_are_inhibited_exist() -> None:
    config = yaml.safe_load((FOLDER / "alertmanager.yaml").read_text())
    for rule in config["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            for name in re.findall(r"Idlestate[A-Za-z]+", matcher):
                assert name in ALERTS


@pytest.mark.parametrize(
    ("source", "target", "is_inhibited"),
    [
        ("IdlestateDown", "IdlestateScrapeSlow", True),
        ("IdlestateNoRetention", "IdlestateBudgetSoonFull", True),
        ("IdlestateNoRetention", "IdlestateBudgetFull", False),
        ("IdlestateClockStepped", "IdlestateExpiryBehind", True),
    ],
)
def test_an_alert_that_follows_from_another_is_inhibited(
    source: str, target: str, is_inhibited: bool
) -> None:
    config = yaml.safe_load((FOLDER / "alertmanager.yaml").read_text())
    found = any(
        all(matches(each, source) for each in rule["source_matchers"])
        and all(matches(each, target) for each in rule["target_matchers"])
        for rule in config["inhibit_rules"]
    )
    assert found == is_inhibited


def matches(matcher: str, alert: str) -> bool:
    name, how, value = re.fullmatch(r'(\w+)(=~|!=|=)"(.*)"', matcher).groups()  # type: ignore[union-attr]
    assert name == "alertname"
    if how == "=~":
        return re.fullmatch(value, alert) is not None
    return (value == alert) == (how == "=")


def test_the_mixin_holds_the_dashboards_rules_and_alerts(
    programs: Path,  # noqa: F811
) -> None:
    program = (
        f'(import "{ROOT}/deploy/mixin/mixin.libsonnet")'
        " { all: [$.grafanaDashboards, $.prometheusAlerts, $.prometheusRules] }"
    )
    dashboards, alerts, rules = json.loads(run(programs / "jsonnet", "-e", program))["all"]
    assert len(dashboards) == 4
    assert {rule["alert"] for group in alerts["groups"] for rule in group["rules"]} == set(ALERTS)
    assert rules == yaml.safe_load((FOLDER / "rules.yaml").read_text())

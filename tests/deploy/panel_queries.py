"""All PromQL of dashboards, rules and alerts, as it can be asked of a Prometheus."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from idlestate.metrics.dashboards.generate import BOARDS
from idlestate.metrics.dashboards.grafana_json import board_json

FOLDER = Path(__file__).resolve().parents[2] / "deploy/prometheus"
VARIABLES = {"$__rate_interval": "1m", "$job": ".+", "$operator": ".+", "$query": ".+"}


def queries() -> Iterator[tuple[str, str]]:
    """Where each expression is, and the expression."""
    for board in BOARDS:
        for panel in board_json(board)["panels"]:
            for target in panel.get("targets", ()):
                expr = target["expr"]
                for name, value in VARIABLES.items():
                    expr = expr.replace(name, value)
                yield f"{board.uid}: {panel['title']}: {target['legendFormat']}", expr
    for file in ("rules.yaml", "alerts.yaml"):
        for group in yaml.safe_load((FOLDER / file).read_text())["groups"]:
            for rule in group["rules"]:
                if "record" in rule:
                    yield rule["record"], rule["expr"]
                    continue
                for at, part in enumerate(_branches(rule["expr"])):
                    yield f"{rule['alert']} {at}", without_thresholds(part)


def without_thresholds(expr: str) -> str:
    """An alert's expression that returns series whether it fires or not.

    Comparisons with numbers are left out, those with series become differences, and `unless` asks
    for both sides.
    """
    expr = re.sub(r"\s*(==|!=|>=|<=|>|<)\s*-?[0-9][0-9.e]*(?!\S*\s*\*)", "", expr)
    return re.sub(r"\s(==|!=|>=|<=|>|<)\s", " - ", expr).replace(" unless ", " and ")


def _branches(expr: str) -> list[str]:
    """The sides of an outermost `or`: each has to return series by itself."""
    found, depth, begin = [], 0, 0
    for at, sign in enumerate(expr):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and expr.startswith(" or ", at):
            found.append(expr[begin:at])
            begin = at + len(" or ")
    return [*found, expr[begin:]]

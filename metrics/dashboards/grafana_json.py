"""Dashboards as Grafana's JSON, schema version 42; `make dashboards` checks it with its types."""

import json
from collections.abc import Iterator
from typing import Any, Final

from idlestate.metrics.dashboards.dashboard_model import (
    REFRESH_EVERY,
    SHOWN_SPAN,
    Board,
    Kind,
    Panel,
    PanelRow,
    Query,
)

SCHEMA_VERSION: Final = 42

_WIDTH = 24
_HEIGHT = {Kind.CURVES: 8, Kind.NUMBER: 4, Kind.BARS: 8, Kind.TABLE: 8}
_SOURCE = {"type": "prometheus", "uid": "$datasource"}
_REDUCED = {"calcs": ["lastNotNull"], "fields": "", "values": False}


def render(board: Board) -> str:
    """The text of a dashboard's file."""
    return json.dumps(board_json(board), indent=2, ensure_ascii=False) + "\n"


def board_json(board: Board) -> dict[str, Any]:
    """A dashboard in Grafana's terms."""
    return {
        "uid": f"idlestate-{board.uid}",
        "title": board.title,
        "description": board.description,
        "tags": ["idlestate"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,
        "graphTooltip": 1,
        "refresh": REFRESH_EVERY,
        "time": {"from": f"now-{SHOWN_SPAN}", "to": "now"},
        "timezone": "browser",
        "links": [_LINKS],
        "templating": {"list": list(_variables(board))},
        "panels": list(_panels(board)),
    }


_LINKS = {
    "title": "idlestate",
    "type": "dashboards",
    "tags": ["idlestate"],
    "asDropdown": True,
    "icon": "external link",
    "includeVars": True,
    "keepTime": True,
    "targetBlank": False,
    "tooltip": "",
    "url": "",
}


def _variables(board: Board) -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
    }
    queries = {
        "job": "label_values(idlestate_build_info, job)",
        board.label: f'label_values({board.found_by}{{job=~"$job"}}, {board.label})',
    }
    for name, query in queries.items():
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": _SOURCE,
            "query": query,
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"selected": True, "text": "All", "value": "$__all"},
        }


def _panels(board: Board) -> Iterator[dict[str, Any]]:
    panel_id, y = 0, 0
    of = f'job=~"$job", {board.label}=~"${board.label}"'
    for row in board.rows:
        panel_id += 1
        yield _row(row, panel_id, y)
        y += 1
        x = height = 0
        for panel in row.panels:
            if x + panel.width > _WIDTH:
                x, y, height = 0, y + height, 0
            panel_id += 1
            yield _panel(panel, panel_id, x, y, of)
            x += panel.width
            height = max(height, _HEIGHT[panel.kind])
        y += height


def _row(row: PanelRow, panel_id: int, y: int) -> dict[str, Any]:
    return {
        "id": panel_id,
        "type": "row",
        "title": row.title,
        "collapsed": False,
        "gridPos": {"x": 0, "y": y, "w": _WIDTH, "h": 1},
        "panels": [],
    }


def _panel(panel: Panel, panel_id: int, x: int, y: int, of: str) -> dict[str, Any]:
    targets = [
        _target(panel.kind, query, chr(ord("A") + at), of) for at, query in enumerate(panel.queries)
    ]
    return {
        "id": panel_id,
        "type": panel.kind.value,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": _HEIGHT[panel.kind]},
        "targets": targets,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit.value,
                **({} if panel.is_signed else {"min": 0}),
                **_colours(panel),
                **_custom(panel),
            },
            "overrides": [],
        },
        "options": _options(panel.kind),
        "transformations": _one_table(panel) if panel.kind is Kind.TABLE else [],
    }


def _one_table(panel: Panel) -> list[dict[str, Any]]:
    """Joins the queries of a table into one, with their legends as names of the columns."""
    names = {f"Value #{chr(ord('A') + at)}": query.legend for at, query in enumerate(panel.queries)}
    columns = {"excludeByName": {"Time": True}, "renameByName": names, "indexByName": {}}
    return [{"id": "merge", "options": {}}, {"id": "organize", "options": columns}]


def _target(kind: Kind, query: Query, ref_id: str, of: str) -> dict[str, Any]:
    formats = {Kind.TABLE: "table", Kind.BARS: "heatmap"}
    is_curve = kind is Kind.CURVES
    return {
        "refId": ref_id,
        "datasource": _SOURCE,
        "expr": query.expr.replace("$of", of),
        "legendFormat": query.legend,
        "format": formats.get(kind, "time_series"),
        "instant": not is_curve,
        "range": is_curve,
        "editorMode": "code",
    }


def _colours(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.warn_at is not None:
        steps.append({"color": "orange", "value": panel.warn_at})
    mode = "palette-classic" if panel.kind is Kind.CURVES else "thresholds"
    return {"color": {"mode": mode}, "thresholds": {"mode": "absolute", "steps": steps}}


def _custom(panel: Panel) -> dict[str, Any]:
    if panel.kind is not Kind.CURVES:
        return {}
    stacking = {"group": "A", "mode": "normal" if panel.stacked else "none"}
    custom = {
        "drawStyle": "line",
        "fillOpacity": 20 if panel.stacked else 0,
        "lineWidth": 1,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": stacking,
        "thresholdsStyle": {"mode": "off" if panel.warn_at is None else "line"},
    }
    return {"custom": custom}


def _options(kind: Kind) -> dict[str, Any]:
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
    if kind is Kind.CURVES:
        return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    if kind is Kind.NUMBER:
        return {
            "colorMode": "background",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "percentChangeColorMode": "standard",
            "reduceOptions": _REDUCED,
            "showPercentChange": False,
            "textMode": "auto",
            "wideLayout": True,
        }
    if kind is Kind.BARS:
        return {
            "displayMode": "basic",
            "legend": legend,
            "maxVizHeight": 300,
            "minVizHeight": 16,
            "minVizWidth": 8,
            "namePlacement": "auto",
            "orientation": "horizontal",
            "reduceOptions": _REDUCED,
            "showUnfilled": True,
            "sizing": "auto",
            "valueMode": "color",
        }
    return {"cellHeight": "sm", "frameIndex": 0, "showHeader": True, "sortBy": []}

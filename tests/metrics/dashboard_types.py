"""Dashboards as TypeScript, so that Grafana's own types refuse what Grafana would not understand.

JSON has no types: a misspelt field or an unknown word is ignored when a dashboard is loaded. Each
panel is checked against the options and fields of its own kind; `title`, `description` and `unit`
are mandatory.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HEAD = """\
import type { Dashboard, FieldConfigSource, Panel, RowPanel } from '@grafana/schema';
import type * as BarGauge from
  '@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen';
import type * as Stat from
  '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as Table from
  '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as TimeSeries from
  '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

// What JSON can hold of a type: the words of an enum instead of the enum.
type Json<T> = T extends string ? `${T}` : T extends readonly (infer U)[] ? Json<U>[]
  : T extends object ? { [K in keyof T]: Json<T[K]> } : T;
interface Query {
  refId: string; datasource: { type: string; uid: string }; expr: string; legendFormat: string;
  format: 'time_series' | 'table' | 'heatmap'; instant: boolean; range: boolean; editorMode: 'code';
}
type Defaults = FieldConfigSource['defaults'];
type PanelOf<Kind, Options, Custom> =
  Json<Omit<Panel, 'type' | 'title' | 'description' | 'options' | 'fieldConfig' | 'targets'>> & {
    type: Kind; title: string; description: string; options: Json<Options>; targets: Query[];
    fieldConfig: {
      defaults: Json<Omit<Defaults, 'custom' | 'unit'>> & { unit: string; custom?: Json<Custom> };
      overrides: Json<FieldConfigSource['overrides']>;
    };
  };
type None = Record<string, never>;
"""
_PANELS = {
    "timeseries": "PanelOf<'timeseries', TimeSeries.Options, TimeSeries.FieldConfig>",
    "stat": "PanelOf<'stat', Stat.Options, None>",
    "bargauge": "PanelOf<'bargauge', BarGauge.Options, None>",
    "table": "PanelOf<'table', Table.Options, Table.FieldConfig>",
    "row": "Json<RowPanel>",
}


def refused(
    installed: Path, folder: Path, dashboards: Mapping[str, dict[str, Any]]
) -> dict[str, str]:
    """What the compiler says against each dashboard, by name; nothing for one that is right.

    Args:
        installed: what `scripts/grafana_types.sh` prints.
        folder: an empty folder for the TypeScript.
        dashboards: JSON of dashboards by name.
    """
    (folder / "node_modules").symlink_to(installed / "node_modules")
    for name, dashboard in dashboards.items():
        (folder / f"{name}.ts").write_text(_typescript(dashboard))
    options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022"]
    options += ["--module", "esnext", "--moduleResolution", "bundler"]
    done = subprocess.run(
        [
            str(installed / "node_modules/.bin/tsc"),
            *options,
            *(f"{name}.ts" for name in dashboards),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        file, at, what = line.partition(".ts(")
        if at and file in dashboards:
            found.setdefault(file, what)
        else:
            assert not at, line  # the types themselves were not found
    assert (done.returncode == 0) == (not found), done.stdout + done.stderr
    return found


def _typescript(dashboard: dict[str, Any]) -> str:
    frame = {name: value for name, value in dashboard.items() if name != "panels"}
    text = _HEAD
    text += f"export const frame: Json<Omit<Dashboard, 'panels'>> = {json.dumps(frame)};\n"
    for at, panel in enumerate(dashboard["panels"]):
        text += f"export const panel{at}: {_PANELS[panel['type']]} = {json.dumps(panel)};\n"
    return text

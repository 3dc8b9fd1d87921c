"""The parts of a dashboard, as far as the four dashboards use them; `grafana_json` writes them.

Queries name their labels once: `{$of}` stands for the dashboard's variables, so
`idlestate_live_keys{$of}` becomes `idlestate_live_keys{job=~"$job", operator=~"$operator"}`.

A pipeline and its sidecar both export the same operator. Queries therefore take the maximum by
operator first and add up only then.
"""

from dataclasses import dataclass
from enum import StrEnum

SHOWN_SPAN, REFRESH_EVERY = "6h", "30s"
"""The initial time span and refresh interval of every dashboard."""


class Kind(StrEnum):
    """How a panel is drawn, by Grafana's name."""

    CURVES = "timeseries"
    NUMBER = "stat"
    BARS = "bargauge"
    TABLE = "table"


class Unit(StrEnum):
    """The unit of a panel's values, by Grafana's name."""

    COUNT = "short"
    PER_SECOND = "cps"
    ROWS_PER_SECOND = "rowsps"
    SECONDS = "s"
    BYTES = "bytes"
    BYTES_PER_SECOND = "Bps"
    SHARE = "percentunit"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and its legend: a template such as `{{operator}}`, or the column of a table."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel.

    Attributes:
        title: a few words.
        description: what it shows, and what to do when it looks wrong.
        unit: the unit of its values.
        queries: at least one.
        kind: how it is drawn.
        width: the width, out of 24.
        warn_at: the value from which on it is orange; None: never.
        stacked: whether curves are stacked.
        is_signed: whether values may be below 0; otherwise the axis starts there.
    """

    title: str
    description: str
    unit: Unit
    queries: tuple[Query, ...]
    kind: Kind = Kind.CURVES
    width: int = 12
    warn_at: float | None = None
    stacked: bool = False
    is_signed: bool = False


@dataclass(frozen=True, slots=True)
class PanelRow:
    """Panels under a headline."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One dashboard.

    Attributes:
        uid: used in its URL, and after `idlestate-` in the name of its file.
        title: what Grafana lists.
        description: for whom and what for.
        label: the label to choose by, besides the job.
        found_by: the metric whose label values are the choice.
        rows: from top to bottom.
    """

    uid: str
    title: str
    description: str
    label: str
    found_by: str
    rows: tuple[PanelRow, ...]

"""Draws the growth of the state, with retention and without.

The chart has two lines over event time, with values at their ends and a y axis from 0. The drawing
library is imported when a chart is drawn, so that a running pipeline does not load it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from idlestate.metrics.growth_log import GrowthPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png")
SIZE_IN = (9.0, 4.4)
PNG_DPI = 160
DAY_MS = 86_400_000

INK = "#1f2933"
MUTED = "#7b8794"
GRID = "#e4e7eb"
KEPT = "#0b7a75"  # also differs from MUTED in lightness, for readers who do not see colours


@dataclass(frozen=True, slots=True)
class Growth:
    """The numbers in the chart.

    Attributes:
        keys_seen: keys that would be in the state without retention.
        peak: most keys in the state after any batch.
        live: keys in the state after the last batch.
        factor: keys now without retention, divided by the peak with retention; 1 if the state was
            always empty.
    """

    keys_seen: int
    peak: int
    live: int
    factor: float

    @classmethod
    def of(cls, points: Sequence[GrowthPoint]) -> "Growth":
        """Summarise at least one point."""
        peak = max(point.live_keys for point in points)
        keys_seen = max(point.keys_seen for point in points)
        return cls(keys_seen, peak, points[-1].live_keys, keys_seen / peak if peak else 1.0)

    def sentence(self, keys: str, *, estimated: bool = False) -> str:
        """The headline of the chart; `keys` is the name of the keys, in the plural."""
        seen = (
            f"{_count(self.keys_seen, estimated)} {keys} seen, never more than {self.peak:,} kept"
        )
        seen = seen[0].upper() + seen[1:]
        return f"{seen}: {_times(self.factor)} state" if self.factor >= 1.05 else seen


def draw_growth(
    points: Sequence[GrowthPoint],
    out: Path,
    *,
    keys: str = "keys",
    subtitle: str = "",
    estimated: bool = False,
) -> Growth:
    """Draw the points into `out`, and replace it atomically.

    Args:
        points: in order of batch, as `GrowthLog.points` returns them.
        out: the file; its ending, .svg or .png, is the format.
        keys: the name of the keys, in the plural ("sessions").
        subtitle: a line under the headline: the job and its retention.
        estimated: whether `keys_seen` is an estimate ("about 353,000").

    Returns:
        The numbers in the chart.

    Raises:
        ValueError: there are no points, or the ending is not one of these.
    """
    if not points:
        raise ValueError("the growth log has no points yet; draw the chart after the first batch")
    if out.suffix not in FORMATS:
        raise ValueError(
            f"{out.name}: unknown format; use a name that ends in {' or '.join(FORMATS)}"
        )

    import matplotlib as mpl  # noqa: PLC0415 - see the top

    growth = Growth.of(points)
    # The same points give the same bytes: no date, and ids from a constant.
    with mpl.rc_context({"svg.hashsalt": "idlestate", "font.family": "DejaVu Sans"}):
        figure = _figure(points, growth, _Words(keys, subtitle, estimated))
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = out.with_name(f".{out.name}.part")
        kind = out.suffix.removeprefix(".")
        about = {"Date": None} if kind == "svg" else {"Software": None}
        try:
            figure.savefig(draft, format=kind, dpi=PNG_DPI, metadata=about)
            draft.replace(out)
        finally:
            draft.unlink(missing_ok=True)
    return growth


@dataclass(frozen=True, slots=True)
class _Words:
    keys: str
    subtitle: str
    estimated: bool


def _figure(points: Sequence[GrowthPoint], growth: Growth, words: _Words) -> "Figure":
    from matplotlib.figure import Figure  # noqa: PLC0415 - see the top

    figure = Figure(figsize=SIZE_IN, facecolor="white")
    axes = figure.add_axes((0.085, 0.12, 0.69, 0.64))
    _lines(axes, points, growth, words)
    _frame(axes, points, words.keys)
    headline = growth.sentence(words.keys, estimated=words.estimated)
    figure.text(0.02, 0.925, headline, fontsize=13, weight="bold", color=INK)
    figure.text(0.02, 0.865, words.subtitle, fontsize=9.5, color=MUTED)
    return figure


def _lines(axes: "Axes", points: Sequence[GrowthPoint], growth: Growth, words: _Words) -> None:
    times = np.array([point.time_ms for point in points], dtype="datetime64[ms]")
    live = [point.live_keys for point in points]
    seen = [point.keys_seen for point in points]
    mark = "o" if len(points) == 1 else ""
    axes.plot(times, seen, color=MUTED, linewidth=1.8, marker=mark)
    axes.fill_between(times, live, color=KEPT, alpha=0.15, linewidth=0)
    axes.plot(times, live, color=KEPT, linewidth=2.4, marker=mark)

    top = max(*seen, *live, 1)
    high, low = _apart(seen[-1], live[-1], least=top * 0.2)
    ends = (
        (high, MUTED, "without retention", f"{_count(seen[-1], words.estimated)} {words.keys}"),
        (low, KEPT, "with retention", f"{live[-1]:,} {words.keys}\npeak {growth.peak:,}"),
    )
    for height, color, name, value in ends:
        axes.annotate(
            f"{name}\n{value}",
            xy=(1.0, height),
            xycoords=("axes fraction", "data"),
            xytext=(10, 0),
            textcoords="offset points",
            va="center",
            fontsize=10,
            color=color,
            linespacing=1.35,
            annotation_clip=False,
        )


def _frame(axes: "Axes", points: Sequence[GrowthPoint], keys: str) -> None:
    import matplotlib.dates  # noqa: PLC0415 - see the top
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415

    axes.set_ylim(bottom=0, top=max(max(p.keys_seen, p.live_keys, 1) for p in points) * 1.04)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10], integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.text(0, 1.03, f"{keys} in the state", transform=axes.transAxes, fontsize=9, color=MUTED)

    dates: Any = matplotlib.dates  # has no types
    begin, end = points[0].time_ms, points[-1].time_ms
    axes.margins(x=0 if begin < end else 0.05)
    locator = dates.AutoDateLocator(tz=UTC, minticks=4, maxticks=9)
    axes.xaxis.set_major_locator(locator)
    day = datetime.fromtimestamp(begin / 1000, UTC)
    if begin == end:
        axes.set_xticks([])
        axes.set_xlabel(f"{day:%Y-%m-%d %H:%M} UTC", color=MUTED, fontsize=9)
    elif end - begin <= 1.5 * DAY_MS:
        axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M", tz=UTC))
        axes.set_xlabel(f"event time, {day:%Y-%m-%d} UTC", color=MUTED, fontsize=9)
    else:
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=UTC))
        axes.set_xlabel("event time, UTC", color=MUTED, fontsize=9)
    axes.tick_params(colors=MUTED, labelsize=9, length=0)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)


def _count(number: int, estimated: bool) -> str:
    """The number; an estimate is rounded to three digits and marked."""
    return f"about {int(float(f'{number:.3g}')):,}" if estimated else f"{number:,}"


def _times(factor: float) -> str:
    return f"{factor:,.0f} times less" if factor >= 9.95 else f"{factor:.1f} times less"


def _apart(high: float, low: float, least: float) -> tuple[float, float]:
    """Heights of two labels that do not overlap."""
    if high - low >= least:
        return high, max(low, least / 2)
    middle = max((high + low) / 2, least)
    return middle + least / 2, middle - least / 2

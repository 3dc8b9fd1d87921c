"""Draws the curve: returning keys and live keys over the window.

The drawing library is imported when a picture is asked for.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idlestate.advisor.advice import Advice
from idlestate.advisor.censored_windows import CENSORED_SHARE
from idlestate.advisor.window_outcome import WindowOutcome
from idlestate.errors import RefusedError
from idlestate.retention.durations import duration_ms, format_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png")
SIZE_IN = (9.0, 5.6)
PNG_DPI = 160

PAPER = "#ffffff"
INK = "#1f2933"
MUTED = "#7b8794"
GRID = "#e4e7eb"
RETURNING = "#b4530a"
KEPT = "#0b7a75"  # also differs from MUTED in lightness, for readers who do not see colours
INKS = {
    "paper": PAPER,
    "ink": INK,
    "muted": MUTED,
    "grid": GRID,
    "returning": RETURNING,
    "kept": KEPT,
}
"""Every colour of the picture, by its purpose."""

_DOT = 4.5
_TICKS = ("1s", "10s", "1m", "10m", "1h", "6h", "1d", "7d", "30d", "180d", "730d", "3650d")


def draw_curve(advice: Advice, out: Path) -> None:
    """Draw the curve into a file, which is replaced atomically.

    Args:
        advice: the advice to draw; windows with min < max are left out.
        out: the file; its ending, .svg or .png, determines the format.

    Raises:
        RefusedError: the file has another ending, or there are fewer than two windows to draw.
    """
    if out.suffix not in FORMATS:
        raise RefusedError(f"{out.name}: a picture must end in {' or '.join(FORMATS)}")
    draft = out.with_name(f".{out.name}.part")
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft.write_bytes(_drawn(advice, out.suffix.removeprefix(".")))
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)


def curve_svg(advice: Advice) -> str:
    """The curve as SVG without an XML header, to be embedded in a page.

    Raises:
        RefusedError: there are fewer than two windows to draw.
    """
    text = _drawn(advice, "svg").decode()
    return text[text.index("<svg") :]


def _drawn(advice: Advice, kind: str) -> bytes:
    import matplotlib as mpl  # noqa: PLC0415 - see the top

    points = [each for each in advice.windows if each.window.is_single]
    if len(points) < 2:
        raise RefusedError("a curve needs two windows or more with one span for min and max")
    # The same advice gives the same bytes: no date, and ids from a constant.
    about = {"Date": None} if kind == "svg" else {"Software": None}
    drawn = io.BytesIO()
    with mpl.rc_context(
        {"svg.hashsalt": "idlestate", "svg.fonttype": "none", "font.family": "DejaVu Sans"}
    ):
        _figure(advice, points).savefig(drawn, format=kind, dpi=PNG_DPI, metadata=about)
    return drawn.getvalue()


def _figure(advice: Advice, points: Sequence[WindowOutcome]) -> "Figure":
    from matplotlib.figure import Figure  # noqa: PLC0415 - see the top

    figure = Figure(figsize=SIZE_IN, facecolor=PAPER)
    upper, lower = figure.subplots(2, 1, sharex=True)
    figure.subplots_adjust(left=0.09, right=0.89, top=0.88, bottom=0.1, hspace=0.28)
    windows = [each.idle_min_ms for each in points]
    shares = [100 * each.returning_share for each in points]
    # A dot at each computed window; the lines between them are only a guide.
    upper.plot(windows, shares, "o-", color=RETURNING, linewidth=2.4, markersize=_DOT)
    upper.set_ylim(bottom=0)
    for figures, ink, width in (("mean_keys", MUTED, 1.8), ("most_keys", KEPT, 2.4)):
        heights = [getattr(each, figures) for each in points]
        lower.plot(windows, heights, "o-", color=ink, linewidth=width, markersize=_DOT)
    lower.set_yscale("symlog", linthresh=1)
    lower.set_ylim(bottom=0)
    held = "held" if points[-1].held_keys else "peak"
    _name_end(upper, shares[-1], "returning", RETURNING, lift=0)
    _name_end(lower, points[-1].most_keys, held, KEPT, lift=6)
    _name_end(lower, points[-1].mean_keys, "mean", MUTED, lift=-6)
    for axes, text in ((upper, "returning keys, % of lives"), (lower, "keys in state")):
        _frame(axes, advice, windows)
        axes.text(0, 1.04, text, transform=axes.transAxes, fontsize=9, color=MUTED)
    lower.set_xlabel("idle window", color=MUTED, fontsize=9)
    _mark(upper, advice)
    figure.text(0.02, 0.945, _headline(advice), fontsize=13, weight="bold", color=INK)
    return figure


def _headline(advice: Advice) -> str:
    knee = advice.knee.window_ms
    found = "no knee" if knee is None else f"knee at {format_duration(knee)}"
    return f"Idle windows for {advice.extent.keys:,} keys: {found}"


def _frame(axes: "Axes", advice: Advice, windows: Sequence[int]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: PLC0415

    axes.set_xscale("log")
    axes.set_xlim(windows[0], windows[-1])
    ticks = [duration_ms(each) for each in _TICKS]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_duration(round(value))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.tick_params(colors=MUTED, labelsize=9, length=0)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_facecolor(PAPER)
    axes.set_axisbelow(True)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    censored_ms = advice.extent.span_ms // CENSORED_SHARE
    if censored_ms < windows[-1]:
        axes.axvspan(max(censored_ms, windows[0]), windows[-1], color=GRID, alpha=0.6, linewidth=0)


def _mark(axes: "Axes", advice: Advice) -> None:
    """Lines at the notable windows, each with its name above."""
    marks = [(each.window_ms, f"{each.share:.0%}") for each in advice.targets]
    if advice.knee.window_ms is not None:
        marks.append((advice.knee.window_ms, "knee"))
    low, high = axes.get_xlim()
    for line, (window_ms, name) in enumerate(sorted(marks)):
        if low <= window_ms <= high:
            axes.axvline(window_ms, color=INK, linewidth=1, linestyle=":")
            axes.annotate(
                name,
                xy=(window_ms, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, -10 - 12 * line),
                textcoords="offset points",
                fontsize=9,
                color=INK,
            )


def _name_end(axes: "Axes", height: float, text: str, color: str, lift: int) -> None:
    axes.annotate(
        text,
        xy=(1.0, height),
        xycoords=("axes fraction", "data"),
        xytext=(8, lift),
        textcoords="offset points",
        va="center",
        fontsize=9.5,
        color=color,
        annotation_clip=False,
    )

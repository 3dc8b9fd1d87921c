"""Draws a soak: keys, bytes, memory and the time of batches over its minutes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idlestate.metrics.growth_chart import GRID, INK, KEPT, MUTED, PNG_DPI
from tests.soak.soak import Soak
from tests.soak.visits import STEP_MS

SIZE_IN = (9.0, 9.0)
MIB = 2**20
WARM = "#b7791f"


def draw(soak: Soak, out: Path) -> None:
    """Draw it into a file whose ending, .svg or .png, decides the format."""
    with mpl.rc_context({"svg.hashsalt": "idlestate", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=SIZE_IN, facecolor="white")
        panels = figure.subplots(5, 1, sharex=True, height_ratios=(1.2, 1, 1, 1.3, 1.3))
        for axes, panel in zip(panels, (_keys, _disk, _files, _memory, _batches), strict=True):
            panel(axes, soak)
            _frame(axes)
        days = len(soak.batches) * STEP_MS / 86_400_000
        panels[-1].set_xlabel("minutes since the start", color=MUTED, fontsize=9)
        last = soak.batches[-1]
        figure.text(
            *(0.02, 0.965),
            f"{days:,.0f} days of {soak.events} in "
            f"{_minutes(soak, [soak.samples[-1].at_s])[0]:.0f} "
            f"minutes: {last['input'] / 1e6:,.0f} M events, state stays as it is",
            fontsize=13,
            weight="bold",
            color=INK,
        )
        figure.text(
            *(0.02, 0.943),
            f"{last['created'] / 1e6:,.1f} M lives begun, {soak.ended / 1e6:,.1f} M "
            f"ended, {last['returning_keys']:,} returning keys; "
            f"the waves are the days; one JVM, two cores",
            fontsize=9.5,
            color=MUTED,
        )
        figure.subplots_adjust(left=0.085, right=0.8, top=0.9, bottom=0.055, hspace=0.35)
        kind = out.suffix.removeprefix(".")
        about = {"Date": None} if kind == "svg" else {"Software": None}
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, format=kind, dpi=PNG_DPI, metadata=about)


def _keys(axes: Axes, soak: Soak) -> None:
    at = _minutes(soak, soak.batch_times)
    lines = [("live_keys", KEPT, "live"), ("remembered_keys", MUTED, "remembered")]
    for name, color, label in lines[: 1 if soak.operator == "join" else 2]:
        _line(axes, at, [each[name] / 1e3 for each in soak.batches], color, label, "k")
    _title(axes, f"thousand {soak.unit.removeprefix('live ')}s")


def _disk(axes: Axes, soak: Soak) -> None:
    _sampled(axes, soak, lambda each: each.disk_bytes / MIB, KEPT, "all files", " MiB")
    _title(axes, "MiB in the checkpoint")


def _files(axes: Axes, soak: Soak) -> None:
    _sampled(axes, soak, lambda each: each.files, KEPT, "files", "")
    _title(axes, "files in the checkpoint")


def _memory(axes: Axes, soak: Soak) -> None:
    _sampled(axes, soak, lambda each: each.jvm / MIB, INK, "JVM", " MiB")
    _sampled(axes, soak, lambda each: each.workers / MIB, KEPT, "workers", " MiB")
    _sampled(axes, soak, lambda each: each.driver / MIB, MUTED, "driver", " MiB", lowered=7)
    heap = [each["heap"] / MIB for each in soak.batches]
    _line(axes, _minutes(soak, soak.batch_times), heap, WARM, "heap in use", " MiB", raised=3)
    _title(axes, "MiB of memory: driver's JVM, Python workers, driver's Python")


def _batches(axes: Axes, soak: Soak) -> None:
    at = _minutes(soak, soak.batch_times)
    for merged, color, name in ((False, MUTED, "no shard merged"), (True, KEPT, "some did")):
        chosen = [
            (minute, each["ms"] / 1000)
            for minute, each in zip(at, soak.batches, strict=True)
            if bool(each["merged"]) is merged
        ]
        if chosen:
            dots = zip(*chosen, strict=True)
            # An hour has thousands of batches: as a picture of its own, they stay small.
            axes.scatter(*dots, s=5, color=color, label=name, linewidths=0, rasterized=True)
    axes.axhline(soak.median_ms / 1000, color=INK, linewidth=0.8)
    axes.axhline(3 * soak.median_ms / 1000, color=INK, linewidth=0.8, linestyle=":")
    axes.set_ylim(bottom=0, top=4 * soak.median_ms / 1000)
    _title(axes, "seconds of a batch")
    _say(axes, soak.median_ms / 1000, INK, f"median {soak.median_ms / 1000:.2f} s")
    _say(axes, 3 * soak.median_ms / 1000, INK, "three times that")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 0.62), frameon=False, fontsize=9)


def _line(
    axes: Axes,
    at: Sequence[float],
    values: Sequence[float],
    color: str,
    label: str,
    unit: str,
    raised: int = 0,
) -> None:
    axes.plot(at, values, color=color, linewidth=1.2)
    level = median(values[len(values) // 2 :])
    _say(axes, level, color, f"{label}: {level:,.0f}{unit}", raised)


def _sampled(
    axes: Axes,
    soak: Soak,
    value: Callable[[Any], float],
    color: str,
    label: str,
    unit: str,
    lowered: int = 0,
) -> None:
    at = _minutes(soak, [each.at_s for each in soak.samples])
    _line(axes, at, [value(each) for each in soak.samples], color, label, unit, -lowered)


def _title(axes: Axes, text: str) -> None:
    axes.text(0, 1.05, text, transform=axes.transAxes, fontsize=9, color=MUTED)


def _say(axes: Axes, height: float, color: str, text: str, raised: int = 0) -> None:
    axes.annotate(
        text,
        xy=(1.0, height),
        xycoords=("axes fraction", "data"),
        xytext=(8, raised),
        textcoords="offset points",
        va="center",
        fontsize=9,
        color=color,
        annotation_clip=False,
    )


def _minutes(soak: Soak, moments: Sequence[float]) -> list[float]:
    return [(each - soak.began_s) / 60 for each in moments]


def _frame(axes: Axes) -> None:
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    axes.tick_params(colors=MUTED, labelsize=9, length=0)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)

"""The picture of growth: what it says, what it is drawn from, what it is not."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idlestate.metrics import growth_chart as picture
from idlestate.metrics.growth_chart import Growth, draw_growth
from idlestate.metrics.growth_log import GrowthPoint
from tests.patience import PATIENCE_S

START_MS = 1_740_960_000_000
HOUR_MS = 3_600_000


def day(hours: int = 24) -> list[GrowthPoint]:
    """A state that rises to 900 keys and falls, while 100 new keys an hour are seen."""
    return [
        GrowthPoint(
            batch_id=hour,
            time_ms=START_MS + (hour + 1) * HOUR_MS,
            live_keys=900 - abs(hour - 12) * 50,
            keys_seen=6_000 + 100 * hour,
        )
        for hour in range(hours)
    ]


def figure_of(points: list[GrowthPoint], keys: str = "keys", *, estimated: bool = False) -> Figure:
    words = picture._Words(keys, "24 hours", estimated)
    return picture._figure(points, Growth.of(points), words)


def texts(figure: Figure) -> list[str]:
    (axes,) = figure.axes
    return [text.get_text() for text in (*figure.texts, *axes.texts)]


def heights_of_labels(axes: Axes) -> list[float]:
    return [float(label.xy[1]) for label in axes.texts if "retention" in label.get_text()]  # type: ignore[attr-defined]


def test_the_numbers_compare_the_peak_with_all_keys_seen() -> None:
    growth = Growth.of(day())
    assert growth == Growth(keys_seen=8_300, peak=900, live=350, factor=8_300 / 900)
    assert growth.sentence("sessions") == (
        "8,300 sessions seen, never more than 900 kept: 9.2 times less state"
    )


@pytest.mark.parametrize(
    ("seen", "peak", "sentence"),
    [
        (353_423, 23_742, "353,423 keys seen, never more than 23,742 kept: 15 times less state"),
        (103, 100, "103 keys seen, never more than 100 kept"),
        (0, 0, "0 keys seen, never more than 0 kept"),
    ],
)
def test_the_factor_is_said_when_there_is_one(seen: int, peak: int, sentence: str) -> None:
    points = [GrowthPoint(batch_id=0, time_ms=0, live_keys=peak, keys_seen=seen)]
    assert Growth.of(points).sentence("keys") == sentence


def test_an_estimate_is_written_as_one() -> None:
    growth = Growth(keys_seen=353_423, peak=23_742, live=0, factor=15.0)
    assert growth.sentence("keys", estimated=True).startswith("About 353,000 keys seen, never")
    assert "without retention\nabout 8,300 keys" in texts(figure_of(day(), estimated=True))


@pytest.mark.parametrize("name", ["growth.svg", "growth.png"])
def test_the_ending_decides_the_format(tmp_path: Path, name: str) -> None:
    out = tmp_path / "docs" / name
    assert draw_growth(day(), out, keys="sessions", subtitle="24 hours").peak == 900
    if out.suffix == ".svg":
        assert ET.parse(out).getroot().tag.endswith("svg")
    else:
        assert out.read_bytes().startswith(b"\x89PNG\r\n")
    assert [path.name for path in out.parent.iterdir()] == [name]


@pytest.mark.parametrize("name", ["growth.svg", "growth.png"])
def test_the_same_points_give_the_same_bytes(tmp_path: Path, name: str) -> None:
    draw_growth(day(), tmp_path / name)
    first = (tmp_path / name).read_bytes()
    draw_growth(day(), tmp_path / name)
    assert (tmp_path / name).read_bytes() == first


def test_lines_are_labelled_at_their_ends_and_there_is_no_legend() -> None:
    figure = figure_of(day(), "sessions")
    assert "without retention\n8,300 sessions" in texts(figure)
    assert "with retention\n350 sessions\npeak 900" in texts(figure)
    assert "24 hours" in texts(figure)
    (axes,) = figure.axes
    assert axes.get_legend() is None


def test_the_y_axis_begins_at_zero_and_holds_both_lines() -> None:
    (axes,) = figure_of(day()).axes
    bottom, top = axes.get_ylim()
    assert bottom == 0
    assert top >= 8_300
    seen, live = (list(line.get_ydata()) for line in axes.lines)  # type: ignore[arg-type]
    assert seen == [point.keys_seen for point in day()]
    assert live == [point.live_keys for point in day()]


@pytest.mark.parametrize(("seen", "live"), [(1_000, 1_000), (1_000, 990), (10, 0), (0, 0), (0, 5)])
def test_labels_keep_apart_however_close_the_lines_end(seen: int, live: int) -> None:
    points = [GrowthPoint(batch_id=0, time_ms=START_MS, live_keys=live, keys_seen=seen)]
    (axes,) = figure_of(points).axes
    high, low = heights_of_labels(axes)
    assert high - low >= 0.19 * axes.get_ylim()[1] / 1.04
    assert low >= 0


@pytest.mark.parametrize("hours", [1, 2, 24, 24 * 60])
def test_any_span_can_be_drawn(tmp_path: Path, hours: int) -> None:
    points = [
        GrowthPoint(batch_id=hour, time_ms=START_MS + hour * HOUR_MS, live_keys=1, keys_seen=hour)
        for hour in range(hours)
    ]
    draw_growth(points, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 0


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no points yet"):
        draw_growth([], tmp_path / "growth.svg")


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"growth\.pdf: unknown format; .* in \.svg or \.png"):
        draw_growth(day(), tmp_path / "growth.pdf")


def test_the_drawing_library_is_imported_only_to_draw() -> None:
    code = "import sys, idlestate.metrics.growth_chart; sys.exit('matplotlib' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, timeout=PATIENCE_S).returncode
        == 0
    )

"""The growth of an operator's state as a picture in a page, and the same in words.

The picture scales with the page, so its labels are text of the page around it. It shows a fixed
number of spans of time, each by its lowest and highest point, so that no peak is left out.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree.ElementTree import Element

from idlestate.metrics.history import Size
from idlestate.web.html import tag

BUCKETS = 240
WIDTH, HEIGHT = 960, 200
_TOP = 4  # the line at the peak is not cut in half


def curve_figure(points: Sequence[Size]) -> Element:
    """The curve with its labels and a caption that says the same in words."""
    if len(points) < 2:
        return tag(
            "p",
            "There is no growth curve yet: the history of this operator is too short.",
            class_="muted",
        )
    peak = max(point.live_keys for point in points)
    first, last = points[0], points[-1]
    return tag(
        "figure",
        tag("figcaption", in_words(points)),
        tag(
            "div",
            tag("div", tag("span", f"{peak:,}"), tag("span", "0"), class_="heights"),
            curve(points, in_words(points)),
            class_="plot",
        ),
        tag(
            "div",
            tag("span", moment(first.time_ms)),
            tag("span", moment(last.time_ms)),
            class_="times",
        ),
        class_="curve",
    )


def curve(points: Sequence[Size], label: str, buckets: int = BUCKETS) -> Element:
    """The bare curve, from zero to its peak.

    Args:
        points: two or more, by time.
        label: what a screen reader says instead.
        buckets: the number of time spans into which the curve is divided.
    """
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in _places(points, buckets))
    return tag(
        "svg",
        tag("polygon", points=f"0,{HEIGHT} {line} {WIDTH},{HEIGHT}"),
        tag("polyline", points=line),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def in_words(points: Sequence[Size]) -> str:
    """What the curve shows; at least one point."""
    first, last = points[0], points[-1]
    peak = max(points, key=lambda point: point.live_keys)
    return (
        f"Keys in state: {last.live_keys:,} at {moment(last.time_ms)}, "
        f"{first.live_keys:,} at {moment(first.time_ms)}, "
        f"at most {peak.live_keys:,} at {moment(peak.time_ms)}"
    )


def moment(t_ms: int) -> str:
    """A time in UTC, to the second."""
    try:
        return f"{datetime.fromtimestamp(t_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):  # beyond the years of Python's calendar
        return f"{t_ms:,} ms since 1970"


def _places(points: Sequence[Size], count: int) -> list[tuple[float, float]]:
    begin_ms = points[0].time_ms
    span_ms = max(points[-1].time_ms - begin_ms, 1)
    peak = max(*(point.live_keys for point in points), 1)
    buckets: dict[int, list[Size]] = {}
    for point in points:
        at = (point.time_ms - begin_ms) * count // span_ms
        buckets.setdefault(min(max(at, 0), count), []).append(point)
    shown = [point for at in sorted(buckets) for point in _extremes(buckets[at])]
    return [
        (
            (point.time_ms - begin_ms) / span_ms * WIDTH,
            HEIGHT - point.live_keys / peak * (HEIGHT - _TOP),
        )
        for point in shown
    ]


def _extremes(points: list[Size]) -> list[Size]:
    """The first, lowest, highest and last point, each once, in their order."""
    places = range(len(points))
    low = min(places, key=lambda at: points[at].live_keys)
    high = max(places, key=lambda at: points[at].live_keys)
    return [points[at] for at in sorted({0, low, high, len(points) - 1})]

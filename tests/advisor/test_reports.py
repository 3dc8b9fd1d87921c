"""Reports: text, one page, a picture, and a policy that configuration files accept."""

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from idlestate import Advice, advise
from idlestate.advisor.curve_chart import curve_svg, draw_curve
from idlestate.advisor.html_report import html_report
from idlestate.advisor.knee import LEAST_DISTANCE
from idlestate.advisor.text_report import text_report
from idlestate.config.loading import parse
from idlestate.errors import RefusedError
from idlestate.retention.policy import Policy

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
ORIGIN_MS = 1_700_000_000_000
EVIL = "<script>alert('x')</script>"


def visits(pauses_ms: list[int], keys: int = 50, key: str = "user", **arguments: object) -> Advice:
    """Keys that come one after the other, each with the same pauses."""
    per_key = np.concatenate([[0], np.cumsum(pauses_ms)])
    times = np.concatenate([ORIGIN_MS + each * HOUR_MS + per_key for each in range(keys)])
    numbers = np.repeat(np.arange(keys), len(per_key))
    events = pa.table({key: numbers, "at": pa.array(times).cast(pa.timestamp("ms", "UTC"))})
    return advise(events, key=key, event_time="at", **arguments)  # type: ignore[arg-type]


SESSIONS = [2 * MINUTE_MS] * 10 + [DAY_MS]
STEADY = [int(gap) for gap in np.geomspace(MINUTE_MS, 20 * DAY_MS, 40)]


def test_sharp_bend_is_a_knee_and_a_straight_line_is_none() -> None:
    bent, straight = visits(SESSIONS), visits(STEADY)
    assert bent.knee.window_ms is not None
    assert 2 * MINUTE_MS <= bent.knee.window_ms < 3 * MINUTE_MS
    assert straight.knee.window_ms is None
    assert straight.knee.distance < LEAST_DISTANCE
    assert "no knee" in text_report(straight)


@pytest.mark.parametrize(
    ("pauses", "budget"),
    [
        *((SESSIONS, budget) for budget in (None, 1, 49)),
        *((STEADY, budget) for budget in (None, 3)),
        ([10_000], 1),
        ([3_000, 40_000], 1000),
    ],
)
def test_policy_is_one_that_configuration_files_accept(
    pauses: list[int], budget: int | None
) -> None:
    advice = visits(pauses, key_budget=budget)
    assert advice.policy is not None
    config = parse(advice.policy.yaml.encode())
    expected = Policy(
        idle_min_ms=advice.policy.idle_min_ms, idle_max_ms=advice.policy.idle_max_ms, min_gap_ms=0
    )
    assert config.policy(advice.policy.name) == expected
    low, high = advice.policy_bounds
    assert (low.idle_min_ms, high.idle_max_ms) == (expected.idle_min_ms, expected.idle_max_ms)
    if budget is not None and advice.key_budget is not None and advice.key_budget.window_ms:
        assert high.most_keys <= budget


@pytest.mark.parametrize("key", ["session_id", "Straße 1", EVIL, "k" * 200])
def test_policy_of_any_column_has_a_name_that_is_accepted(key: str) -> None:
    advice = visits(SESSIONS, key=key)
    assert advice.policy is not None
    assert parse(advice.policy.yaml.encode()).policies.keys() == {advice.policy.name}


def test_windows_longer_than_a_third_of_the_log_are_marked() -> None:
    text = text_report(visits(SESSIONS, windows=["1d", "2d"]))
    assert re.search(r"^1d +\d", text, re.M)
    assert re.search(r"^2d \* +\d", text, re.M)
    assert "* longer than 1/3 of the log" in text


def test_text_shows_held_keys_only_with_batches() -> None:
    assert "held keys" not in text_report(visits(SESSIONS))
    assert "held keys" in text_report(visits(SESSIONS, batches=20))


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_page_holds_all_it_shows_and_escapes_names() -> None:
    page = _Page(html_report(visits(SESSIONS, key=EVIL), EVIL))
    names = [tag for tag, _ in page.tags]
    assert not {"script", "link", "img", "iframe", "object"} & set(names)
    sources = [value for _, attrs in page.tags for name, value in attrs.items() if name == "src"]
    links = [v for _, attrs in page.tags for n, v in attrs.items() if n.endswith("href")]
    assert not sources
    assert all(link and link.startswith("#") for link in links)
    assert f"Idle windows for {EVIL}" in page.words


def test_page_follows_the_scheme_and_is_read_aloud_in_full() -> None:
    advice = visits(SESSIONS)
    text = html_report(advice, "log")
    page = _Page(text)
    assert "prefers-color-scheme: dark" in text
    assert ("html", {"lang": "en"}) in page.tags
    (picture,) = (attrs for tag, attrs in page.tags if tag == "svg")
    assert picture["role"] == "img"
    assert picture["aria-label"]
    assert sum(tag == "caption" for tag, _ in page.tags) == 2
    assert {attrs["scope"] for tag, attrs in page.tags if tag == "th"} == {"col", "row"}
    for each in advice.windows:
        assert f"{each.peak_keys:,}" in page.words
    fixed = re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", text)
    assert not fixed, "a colour that does not follow the scheme"


def test_page_without_a_curve_has_its_table() -> None:
    page = _Page(html_report(visits(SESSIONS, windows=["30m"]), "log"))
    assert "svg" not in [tag for tag, _ in page.tags]
    assert "table" in [tag for tag, _ in page.tags]


def test_pictures_are_drawn_and_equal_for_equal_advice(tmp_path: Path) -> None:
    advice = visits(SESSIONS)
    draw_curve(advice, tmp_path / "deep" / "curve.png")
    assert (tmp_path / "deep" / "curve.png").read_bytes().startswith(b"\x89PNG")
    draw_curve(advice, tmp_path / "curve.svg")
    assert ElementTree.parse(tmp_path / "curve.svg").getroot().tag.endswith("svg")
    assert curve_svg(advice) == curve_svg(advice)
    dots = curve_svg(advice).count("<use xlink:href")
    assert dots >= 3 * len([each for each in advice.windows if each.window.is_single])
    assert [path.name for path in tmp_path.rglob(".*")] == []


def test_picture_of_another_format_or_without_a_curve_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"must end in \.svg or \.png"):
        draw_curve(visits(SESSIONS), tmp_path / "curve.jpg")
    with pytest.raises(RefusedError, match="needs two windows or more"):
        draw_curve(visits(SESSIONS, windows=["30m"]), tmp_path / "curve.png")

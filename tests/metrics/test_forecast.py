"""Forecasts: how far off they are on known shapes and on real traffic, and short histories."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from idlestate.metrics.forecast import Range, full_in_s, next_day, next_hour, settling_ms
from idlestate.metrics.history import DAYS, SLOTS_A_DAY, SLOTS_AN_HOUR, Curve
from idlestate.retention.policy import Policy
from tests.metrics.live_curve import live_curve

DAY, HOUR = SLOTS_A_DAY, SLOTS_AN_HOUR
TIME = np.arange(10 * DAY) / DAY
WAVE = 1 + 0.4 * np.sin(2 * np.pi * TIME - 1.2)
SHAPES = {
    "flat": np.full(len(TIME), 2e5),
    "linear": 1e5 + 43_200 * TIME,
    "linear from nothing": 43_200 * TIME,
    "daily wave": 2e5 * WAVE,
    "daily wave and growth": 2e5 * WAVE * (1 + 0.1 * TIME),
    "a saw of hourly sweeps": 2e5 + 5e4 * ((TIME * 24) % 1),
}
FIRST, STEP = 3 * DAY, 13
Forecast = Callable[[Curve], Range | None]


def noisy(shape: NDArray[np.float64]) -> Curve:
    return shape * (1 + np.random.default_rng(7).normal(0, 0.01, len(shape)))


def known(curve: Curve, now: int) -> Curve:
    """What a history holds at slot `now`."""
    return curve[max(0, now + 1 - DAYS * DAY) : now + 1]


def forecasts(curve: Curve, forecast: Forecast, ahead: int) -> tuple[Curve, Curve, Curve, Curve]:
    """Expected, low, high and true values at many moments."""
    rows = []
    for now in range(FIRST, len(curve) - ahead, STEP):
        found = forecast(known(curve, now))
        assert found is not None
        rows.append((found.expected, found.low, found.high, curve[now + ahead]))
    expected, low, high, true = np.array(rows).T
    return expected, low, high, true


def off_by(curve: Curve, forecast: Forecast, ahead: int) -> tuple[float, float]:
    """Median and 95th percentile of the error in percent."""
    expected, _, _, true = forecasts(curve, forecast, ahead)
    error = 100 * np.abs(expected - true) / np.maximum(true, 1)
    return float(np.median(error)), float(np.quantile(error, 0.95))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("forecast", "ahead"), [(next_hour, HOUR), (next_day, DAY)])
def test_known_shapes_are_forecast_within_3_and_10_percent(
    shape: str, forecast: Forecast, ahead: int
) -> None:
    median, most = off_by(noisy(SHAPES[shape]), forecast, ahead)
    assert (median <= 3, most <= 10) == (True, True), (median, most)


@pytest.mark.parametrize("days_before", [2.5, 3.2, 5.3])
def test_a_step_is_caught_up_within_a_day(days_before: float) -> None:
    curve = noisy(np.where(days_before > TIME, 2e5, 4e5))
    caught_up = int((days_before + 1) * DAY) + HOUR
    for forecast in (next_hour, next_day):
        for now in range(caught_up, len(curve), STEP):
            found = forecast(known(curve, now))
            assert found is not None
            assert found.expected == pytest.approx(4e5, rel=0.1)


def test_a_flat_wave_never_fills_a_budget_above_its_highest() -> None:
    curve = noisy(SHAPES["daily wave"])
    budget = 1.3 * curve.max()
    assert {full_in_s(known(curve, now), budget) for now in range(0, len(curve), STEP)} == {
        math.inf
    }


def test_growth_fills_a_budget_when_the_forecast_says() -> None:
    curve = SHAPES["linear"]
    for now in range(2 * DAY, 4 * DAY, STEP):
        slots = np.flatnonzero(curve[now:] >= 3e5)[0]
        assert full_in_s(known(curve, now), 3e5) == pytest.approx(600 * slots, abs=600)


def test_a_wave_that_grows_fills_a_budget_at_its_highest_point() -> None:
    curve = SHAPES["daily wave and growth"]
    budget = 1.001 * curve[: 4 * DAY].max()
    full = int(np.flatnonzero(curve >= budget)[0])
    for now in range(full - DAY, full, STEP):
        assert full_in_s(known(curve, now), budget) == pytest.approx(600 * (full - now), abs=3600)


def test_a_budget_that_is_reached_is_full_now_and_one_before_is_not() -> None:
    curve = np.full(3 * DAY, 100.0)
    assert full_in_s(curve, 100) == 0
    assert full_in_s(curve, 101) == math.inf
    assert full_in_s(curve[:0], 0) == math.inf


def test_the_range_of_a_day_spans_the_changes_of_all_days() -> None:
    """They were 100, 50 and 250: the usual one is their median."""
    curve = np.repeat([1000.0, 1100.0, 1150.0, 1400.0], DAY)
    assert next_day(curve) == Range(1450, 1500, 1650)


@pytest.mark.parametrize(("forecast", "least"), [(next_hour, HOUR + 1), (next_day, 2 * DAY + 1)])
def test_too_little_history_gives_no_figure(forecast: Forecast, least: int) -> None:
    curve = np.full(least, 100.0)
    assert forecast(curve[1:]) is None
    assert forecast(curve) == Range(100, 100, 100)
    assert forecast(curve[:0]) is None


def test_on_the_first_day_the_next_hour_goes_on_like_the_last() -> None:
    curve = 1000 + 10.0 * np.arange(2 * HOUR)
    assert next_hour(curve) == Range(1170, 1170, 1170)
    assert full_in_s(curve, 1140) == 1800
    assert full_in_s(curve, 1171) == math.inf


def test_a_forecast_is_never_negative() -> None:
    falling = np.linspace(1000, 0, 3 * DAY)
    assert next_hour(falling) == Range(0, 0, 0)
    assert next_day(falling) == Range(0, 0, 0)
    assert next_day(falling).at_least(5) == Range(5, 5, 5)  # type: ignore[union-attr]


def test_a_yesterday_of_almost_nothing_does_not_multiply() -> None:
    curve = np.full(2 * DAY, 1000.0)
    curve[DAY - 1] = 1
    found = next_hour(curve)
    assert found is not None
    assert found.expected == 1000 + 2 * 999


def test_an_operator_settles_in_its_shortest_window_but_a_day_at_most() -> None:
    hour = 3_600_000
    assert settling_ms(Policy()) == 0
    assert settling_ms(Policy(idle_min="30m", idle_max="1h", ttl="7d")) == hour
    assert settling_ms(Policy(max_lifetime="30d")) == 24 * hour


REAL = [
    # data set, key, idle time in hours, least share of true values within the range of +24 h
    ("globo_clicks", "session_id", 0.5, 0.8),
    ("globo_clicks", "user_id", 24, 0.8),
    ("globo_clicks", "article_id", 6, 0.65),
    ("irc_activity", "user_id", 24, 0.75),
]


@pytest.mark.long
@pytest.mark.parametrize(("data", "key", "hours", "least"), REAL)
def test_the_range_on_real_traffic_holds_the_truth_as_often_as_the_docs_say(
    data_dir: Path, data: str, key: str, hours: float, least: float
) -> None:
    curve = live_curve(data_dir / f"{data}.parquet", key, hours)
    _, low, high, true = forecasts(curve, next_day, DAY)
    assert np.mean((low <= true) & (true <= high)) >= least


@pytest.mark.long
@pytest.mark.parametrize(("key", "most"), [("session_id", (4, 10)), ("user_id", (3, 10))])
def test_state_without_retention_is_forecast_on_real_traffic(
    data_dir: Path, key: str, most: tuple[int, int]
) -> None:
    curve = live_curve(data_dir / "globo_clicks.parquet", key, math.inf)
    median, quantile = off_by(curve, next_day, DAY)
    assert (median <= most[0], quantile <= most[1]) == (True, True), (median, quantile)

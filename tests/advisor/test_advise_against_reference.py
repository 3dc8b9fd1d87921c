"""The advisor says what a slow walk through the events says, one event at a time."""

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from idlestate import advise
from idlestate.advisor.event_columns import Reading
from idlestate.advisor.event_log_in_memory import memory_log
from idlestate.advisor.peak import peaks
from idlestate.advisor.window_ladder import Window
from tests.advisor.slow_advisor import Event, SlowRun, slow_run

ORIGIN_MS = 1_500_000_000_000
WINDOWS = [(2, 2), (5, 5), (9, 9), (40, 40), (500, 500), (5, 7), (9, 30), (40, 41), (3, 200)]
NAMED = [f"{low}ms/{high}ms" for low, high in WINDOWS]


def drawn(seed: int, size: int, span: int) -> list[Event]:
    chance = random.Random(seed)
    return [(chance.choice("abcdefgh"), ORIGIN_MS + chance.randrange(span)) for _ in range(size)]


# Few and simple, or many: lists that Hypothesis makes are short.
events = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 30).map(lambda t: ORIGIN_MS + t)),
    min_size=1,
    max_size=8,
) | st.builds(drawn, st.integers(0), st.integers(1, 80), st.sampled_from([10, 40, 100, 400]))


def table(log: Sequence[Event]) -> pa.Table:
    times = pa.array([t for _, t in log], pa.timestamp("ms", "UTC"))
    return pa.table({"k": [key for key, _ in log], "at": times})


@given(events)
def test_every_figure_equals_the_reference(log: list[Event]) -> None:
    advice = advise(table(log), key="k", event_time="at", windows=NAMED)
    last = max(t for _, t in log)
    span = last - min(t for _, t in log)
    assert [(w.idle_min_ms, w.idle_max_ms) for w in advice.windows] == sorted(WINDOWS)
    for found in advice.windows:
        run = slow_run([log], found.idle_min_ms, found.idle_max_ms)
        check_counts(found, run)
        assert found.peak_keys == run.peak
        if span:
            assert np.isclose(found.mean_keys * span, run.live_ms(last))
        assert found.held_keys == ()
        assert found.is_censored == (3 * found.idle_max_ms > span)


@given(events, st.integers(1, 40))
def test_peak_is_found_however_few_times_are_asked_for_at_once(
    log: list[Event], pieces: int
) -> None:
    found, _ = memory_log(table(log), Reading(key=("k",), event_time="at"))
    windows = [Window.of(each) for each in NAMED]
    first, last = found.extent.first_ms, found.extent.last_ms
    assert peaks(found.live, windows, first, last, pieces) == [
        slow_run([log], low, high).peak for low, high in WINDOWS
    ]


@given(events, st.integers(1, 20), st.integers(0, 80))
def test_keys_held_after_each_batch_equal_the_reference_in_any_order_of_rows(
    log: list[Event], size: int, delay: int
) -> None:
    cut = [log[at : at + size] for at in range(0, len(log), size)]
    advice = advise(
        table(log), key="k", event_time="at", windows=NAMED, batches=size, delay=f"{delay}ms"
    )
    for found in advice.windows:
        run = slow_run(cut, found.idle_min_ms, found.idle_max_ms, delay)
        assert advice.late_rows == run.late
        assert list(found.held_keys) == run.held
        assert found.most_keys == max(run.held)
        check_counts(found, run)


@given(events, st.integers(1, 60), st.integers(0, 30))
def test_batches_of_event_time_are_the_events_of_each_such_stretch(
    log: list[Event], every: int, delay: int
) -> None:
    numbers = sorted({t // every for _, t in log})
    cut = [[event for event in log if event[1] // every == number] for number in numbers]
    advice = advise(
        table(log),
        key="k",
        event_time="at",
        windows=NAMED,
        batches=f"{every}ms",
        delay=f"{delay}ms",
    )
    assert advice.late_rows == 0
    for found in advice.windows:
        run = slow_run(cut, found.idle_min_ms, found.idle_max_ms, delay)
        assert list(found.held_keys) == run.held


@given(events)
def test_each_half_is_a_log_of_its_own(log: list[Event]) -> None:
    advice = advise(table(log), key="k", event_time="at", windows=NAMED)
    times = sorted(t for _, t in log)
    middle = times[len(times) // 2]
    parts = ([e for e in log if e[1] < middle], [e for e in log if e[1] >= middle])
    assume(parts[0])
    for half, part in zip(advice.halves, parts, strict=True):
        alone = advise(table(part), key="k", event_time="at", windows=NAMED)
        assert half.extent == alone.extent
        assert [
            (each.idle_min_ms, each.idle_max_ms, each.returning_share, each.mean_keys)
            for each in half.windows
        ] == [
            (each.idle_min_ms, each.idle_max_ms, each.returning_share, each.mean_keys)
            for each in alone.windows
        ]
        assert half.knee == alone.knee
        assert half.targets == alone.targets


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 40_000)), min_size=1, max_size=60
    ),
    st.integers(1, 9),
)
def test_no_smaller_window_reaches_a_target_and_no_longer_one_fits_the_budget(
    log: list[Event], keys: int
) -> None:
    log = [(key, ORIGIN_MS + t) for key, t in log]
    advice = advise(table(log), key="k", event_time="at", windows=["7s"], key_budget=keys)

    def share(seconds: int) -> float:
        run = slow_run([log], seconds * 1000, seconds * 1000)
        return run.returning / len(run.lives)

    for target in advice.targets:
        seconds = target.window_ms // 1000
        assert share(seconds) <= target.share
        assert seconds == 1 or share(seconds - 1) > target.share
    assert advice.key_budget is not None
    if advice.key_budget.all_fit:
        assert len({key for key, _ in log}) <= keys
        return
    seconds = (advice.key_budget.window_ms or 0) // 1000
    assert not seconds or slow_run([log], seconds * 1000, seconds * 1000).peak <= keys
    assert slow_run([log], seconds * 1000 + 1000, seconds * 1000 + 1000).peak > keys


@given(events)
def test_figures_of_a_policy_are_between_those_of_its_min_and_its_max(log: list[Event]) -> None:
    advice = advise(table(log), key="k", event_time="at", windows=[("9ms", "30ms"), "9ms", "30ms"])
    short, pair, long = advice.windows
    assert (pair.idle_min_ms, pair.idle_max_ms) == (9, 30)
    assert long.returning <= pair.returning <= short.returning
    assert short.peak_keys <= pair.peak_keys <= long.peak_keys


def check_counts(found: object, run: SlowRun) -> None:
    names = ("created", "expired", "returning", "returning_remembered")
    counts = (len(run.lives), len(run.ended), run.returning, run.remembered)
    assert tuple(getattr(found, name) for name in names) == counts


@pytest.mark.parametrize("low", [10, 6])
@pytest.mark.parametrize("gap", [5, 6, 9, 10, 11, 16, 19, 20, 21, 22])
def test_gaps_at_the_borders_of_a_window(low: int, gap: int) -> None:
    log = [("a", ORIGIN_MS), ("a", ORIGIN_MS + gap), ("b", ORIGIN_MS + 40)]
    advice = advise(
        table(log), key="k", event_time="at", windows=[f"{low}ms/10ms"], batches=1, delay="2ms"
    )
    (found,) = advice.windows
    assert found.returning == (gap >= 10)
    assert found.returning_remembered == (10 <= gap <= 20)
    run = slow_run([[event] for event in log], low, 10, 2)
    check_counts(found, run)
    assert list(found.held_keys) == run.held

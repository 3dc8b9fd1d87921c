"""Bins count the keys up to a moment: exactly when these are few, else to one bin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.retention.time_bins import BINS, KeyTimes, TimeBins

FOREVER_MS = 2**63 - 1
HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000


def moments_of(times_ms):
    return sorted({ms + by for ms in times_ms for by in (-HOUR_MS, -1, 0, 1, HOUR_MS)})


def counted(shards, moments_ms):
    bins = [TimeBins.of(np.array(times, dtype=np.int64), len(times)) for times in shards]
    return KeyTimes(bins).count(moments_ms).tolist()


def truth(shards, moments_ms):
    return [sum(ms <= moment for times in shards for ms in times) for moment in moments_ms]


few = st.lists(st.integers(NOW_MS - 10**9, NOW_MS + 10**9), max_size=BINS + 1)


@given(st.lists(few, max_size=4))
def test_few_keys_of_each_shard_are_counted_exactly(shards):
    moments = moments_of([ms for times in shards for ms in times]) or [NOW_MS]
    assert counted(shards, moments) == truth(shards, moments)


@given(
    st.lists(
        st.sampled_from([0, 1, 5, HOUR_MS, 24 * HOUR_MS, 30 * 24 * HOUR_MS])
        | st.integers(0, 30 * 24 * HOUR_MS),
        min_size=1,
        max_size=400,
    )
)
def test_many_keys_are_counted_to_one_bin(offsets_ms):
    times = [NOW_MS + offset for offset in offsets_ms]
    moments = moments_of(times)
    most = len(times) // BINS + 1
    for found, right in zip(counted([times], moments), truth([times], moments), strict=True):
        assert abs(found - right) <= most


@pytest.mark.parametrize("shared", [40, 500, 999])
def test_keys_of_one_moment_are_no_other_moments(shared):
    """However many they are: a deadline that all keys of a batch have in common."""
    times = [NOW_MS] * shared + [NOW_MS + HOUR_MS + ms for ms in range(1000 - shared)]
    assert counted([times], [NOW_MS - 1, NOW_MS]) == [0, shared]


def test_a_sample_stands_for_all_keys():
    bins = TimeBins.of(np.arange(NOW_MS, NOW_MS + 1000), 50_000)
    assert sum(bins.keys) == 50_000
    assert KeyTimes([bins]).count([NOW_MS + 499])[0] == pytest.approx(25_000, rel=0.05)


def test_ends_that_never_come_are_counted_nowhere_and_no_keys_give_nothing():
    assert counted([[NOW_MS, FOREVER_MS, FOREVER_MS]], [NOW_MS + 10**15]) == [1]
    assert counted([[], []], [NOW_MS]) == [0]


def test_few_numbers_travel_whatever_the_times_are():
    many = np.random.default_rng(3).integers(0, 10**6, 100_000)
    assert len(TimeBins.of(np.sort(many), len(many)).upto_ms) <= 2 * (BINS + 1)


@given(st.lists(few, max_size=5))
def test_many_operators_are_counted_at_once_each_at_moments_of_its_own(operators):
    many = [
        KeyTimes([TimeBins.of(np.array(times, dtype=np.int64), len(times))]) for times in operators
    ]
    now_ms = np.array([NOW_MS + number * HOUR_MS for number in range(len(many))], dtype=np.int64)
    moments_ms = now_ms[:, None] + np.array([-HOUR_MS, 0, 1])
    expected = [
        truth([times], at) for times, at in zip(operators, moments_ms.tolist(), strict=True)
    ]
    assert KeyTimes.counts(many, moments_ms).tolist() == expected
    ages_ms = [
        sum(max(at - ms, 0) for ms in times) for times, at in zip(operators, now_ms, strict=True)
    ]
    # A bin's keys are taken for its middle, so each is off by at most half the span of all times,
    # and keys of one moment are not off at all.
    found_ms = KeyTimes.sums_of_ages_ms(many, now_ms)
    for times, found, right in zip(operators, found_ms, ages_ms, strict=True):
        span_ms = max(times) - min(times) if times else 0
        assert abs(found - right) <= len(times) * span_ms / 2


def test_ages_of_keys_of_one_moment_are_exact():
    """A bin of one moment has that moment as its middle, not the end of the one before."""
    at_once = KeyTimes([TimeBins.of(np.full(3, NOW_MS - 10**9), 3)])
    assert KeyTimes.sums_of_ages_ms([at_once], np.array([NOW_MS])).tolist() == [3 * 10**9]

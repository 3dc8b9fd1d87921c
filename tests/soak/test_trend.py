"""The judge of a soak: it sees growth, and nothing else."""

import numpy as np
import pytest

from tests.soak.trend import trend

TIMES = np.arange(600.0)
LATE = np.clip(TIMES - 300, 0, None) / 300
"""Nothing in the first half, from 0 to 1 in the second."""


def growth(values):
    return trend("figure", TIMES, values, 0.05).growth


@pytest.mark.parametrize("share", [0.0, 0.02, 0.06, 0.3])
def test_growth_is_measured_through_noise_and_waves(share):
    noise = np.random.default_rng(7).normal(0, 0.05, len(TIMES))
    wave = 1 + 0.2 * np.sin(TIMES / 5) + noise
    found = growth(1e6 * wave * (1 - share / 2 + share * LATE))
    assert found == pytest.approx(share, abs=0.015)


def test_what_happened_in_the_first_half_is_not_growth():
    assert growth(np.minimum(TIMES, 250) + 10) == 0


def test_a_few_wild_moments_are_not_growth():
    values = np.full(len(TIMES), 100.0)
    values[-60:] = 1000
    assert abs(growth(values)) < 0.01


def test_a_bound_is_a_bound():
    values = 1 + 0.05 * LATE
    grown = growth(values)
    for bound, is_flat in ((grown, True), (grown - 1e-9, False)):
        assert trend("figure", TIMES, values, bound).is_flat is is_flat

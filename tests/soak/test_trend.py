"""The judge of a soak: it sees growth, and nothing else."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest

from tests.soak.bounds import FULL
from tests.soak.sampling import Sample
from tests.soak.soak import Soak
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


def soak_of(times_ms: Sequence[float]) -> Soak:
    """Batches of these durations, a second apart, on a machine of their own."""
    samples = [Sample(float(at), *[0] * 6, own_s=at, busy_s=at) for at in range(len(times_ms) + 1)]
    batches = [
        {"batch": at, "began": datetime.fromtimestamp(at, UTC).isoformat(), "ms": ms}
        for at, ms in enumerate(times_ms)
    ]
    return Soak(samples, batches, FULL)


@pytest.mark.parametrize(("batches", "spoilt"), [(45, 1), (600, 1), (4000, 6)])
def test_a_batch_during_which_the_machine_was_busy_elsewhere_is_not_judged(
    batches: int, spoilt: int
) -> None:
    times_ms = np.full(batches, 100)
    times_ms[-spoilt:] = 1000
    assert soak_of(times_ms).longest_times == 1
    times_ms[-spoilt - 2 :] = 1000
    assert soak_of(times_ms).longest_times > FULL.longest


@pytest.mark.parametrize(("batches", "every"), [(100, 20), (600, 50), (4000, 100)])
def test_batches_that_grow_are_seen_if_only_every_so_manieth_does(batches: int, every: int) -> None:
    """As those that merge: the others, and so the trend, stay flat."""
    times_ms = np.full(batches, 100.0)
    times_ms[every - 1 :: every] = np.linspace(100, 500, batches // every)
    soak = soak_of(times_ms)
    assert trend("time", soak.batch_times, times_ms.tolist(), FULL.time).is_flat
    assert soak.longest_times > FULL.longest

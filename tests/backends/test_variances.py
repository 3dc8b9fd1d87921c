"""Standard deviations: stable, and the same in whatever order records are added up."""

import math
from fractions import Fraction
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.shards.variances import Variance

SAMPLE = Variance("x", is_sample=True, is_deviation=True)
POPULATION = Variance("x", is_sample=False, is_deviation=True)


def added_up(batches, of=SAMPLE):
    state = None
    for batch in batches:
        values = {"x": pa.array(batch, pa.float64())}
        fields = of.lift(values, np.ones(len(batch), dtype=bool))
        if state is not None:
            fields = [np.concatenate(both) for both in zip(state, fields, strict=True)]
        state = of.reduce([np.array(field) for field in fields], np.array([0]))
    return of.result(state)[0].as_py()


def exact(values):
    mean = sum(map(Fraction, values)) / len(values)
    return math.sqrt(sum((Fraction(each) - mean) ** 2 for each in values) / (len(values) - 1))


@pytest.mark.parametrize(
    ("about", "spread"),
    [(0, 1), (1e9, 1e-3), (1.7e15, 1e3), (1e-5, 1e-12)],
    ids=["plain", "close together", "times in microseconds", "tiny"],
)
def test_the_order_of_records_and_batches_shows_in_no_bit(about, spread):
    chance = Random(f"{about}")
    for _ in range(20):
        values = [about + chance.gauss(0, spread) for _ in range(chance.randint(2, 200))]
        found = set()
        for size in (1, 3, 50, 200):
            mixed = chance.sample(values, len(values))
            found.add(added_up([mixed[at : at + size] for at in range(0, len(mixed), size)]))
        (only,) = found
        assert only == pytest.approx(exact(values), rel=1e-15)


@pytest.mark.parametrize("batches", [[[0.1] * 10], [[0.1]] * 10, [[1e300, 1e300]], [[-0.0, 0.0]]])
def test_equal_values_deviate_by_nothing(batches):
    assert added_up(batches) == 0.0


@pytest.mark.parametrize(
    ("batches", "of_sample", "of_population"),
    [
        ([[None]], None, None),
        ([[None, 3.0]], None, 0.0),
        ([[None], [3.0], [None, 5.0]], math.sqrt(2), 1.0),
        ([[math.inf, 1.0]], math.nan, math.nan),
        ([[math.inf], [math.inf]], math.nan, math.nan),
        ([[math.inf]], None, math.nan),
        ([[1.0], [-math.inf]], math.nan, math.nan),
        ([[math.nan], [1.0, 2.0]], math.nan, math.nan),
        ([[1e200], [-1e200]], math.nan, math.nan),
    ],
)
def test_at_the_edges(batches, of_sample, of_population):
    nan = {"nan_ok": True}
    assert added_up(batches) == pytest.approx(of_sample, **nan)
    assert added_up(batches, POPULATION) == pytest.approx(of_population, **nan)

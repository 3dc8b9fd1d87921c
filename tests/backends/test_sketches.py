"""Sketches and bins: how far off they may be, and that the order of records does not matter."""

import math
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs.fields import join
from idlestate.backends.shards.aggregates import bind


def accumulator(text, kind):
    (bound,) = bind({"a": text}, {"x": kind})
    return bound.accumulator


def state_of(of, kind, batches):
    state = None
    for batch in batches:
        fields = of.lift({"x": pa.array(batch, kind)}, np.ones(len(batch), dtype=bool))
        if state is not None:
            fields = [join(both) for both in zip(state, fields, strict=True)]
        state = of.reduce(fields, np.array([0]))
    return state


def result_of(text, kind, values):
    of = accumulator(text, kind)
    return of.result(state_of(of, kind, [values]))[0].as_py()


@pytest.mark.parametrize("text", ["approx_percentile(x, 0.9)", "approx_count_distinct(x)"])
def test_state_is_the_same_bytes_in_whatever_order_records_come(text):
    chance, of = Random(text), accumulator(text, pa.float64())
    values = [None, *(chance.gauss(0, 100) for _ in range(500))]
    found = set()
    for size in (1, 7, 501):
        mixed = chance.sample(values, len(values))
        batches = [mixed[at : at + size] for at in range(0, len(mixed), size)]
        found.add(tuple(each[0].as_py() for each in state_of(of, pa.float64(), batches)))
    assert len(found) == 1


@pytest.mark.parametrize("rsd", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("count", [1, 10, 1000, 30_000])
def test_estimates_of_distinct_values_are_as_far_off_as_asked_for(count, rsd):
    of = accumulator(f"approx_count_distinct(x, {rsd})", pa.int64())
    trials = 20
    values = np.random.default_rng(count).integers(0, 2**62, count * trials)
    fields = of.lift({"x": pa.array(values)}, np.ones(len(values), dtype=bool))
    found = of.result(of.reduce(fields, np.arange(trials) * count)).to_numpy()
    off = found / count - 1
    assert abs(off.mean()) <= 2 * rsd / math.sqrt(trials)
    assert math.sqrt((off**2).mean()) <= 1.5 * rsd


@pytest.mark.parametrize(
    ("kind", "values", "count"),
    [
        (pa.float64(), [0.0, -0.0, math.nan, -math.nan, None], 2),
        (pa.string(), ["", "a", "a", None], 2),
        (pa.binary(), [b"", b"\x00"], 2),
        (pa.bool_(), [True, False, True], 2),
        (pa.decimal128(30, 2), [Decimal("1.10"), Decimal("-1.10"), Decimal("1.10")], 2),
        (pa.int8(), [None], 0),
    ],
)
def test_a_few_values_of_every_type_are_told_apart(kind, values, count):
    assert result_of("approx_count_distinct(x)", kind, values) == count


def test_an_integer_or_float_is_the_same_value_in_a_wider_type():
    for narrow, wide in ((pa.int8(), pa.int64()), (pa.float32(), pa.float64())):
        of = accumulator("approx_count_distinct(x)", narrow)
        before = state_of(of, narrow, [[1, 2, 3]])
        after = state_of(accumulator("approx_count_distinct(x)", wide), wide, [[1, 2, 3]])
        assert before == after


@pytest.mark.parametrize("accuracy", [1, 2, 10, 100, 128, 129, 10_000, 1_000_000])
def test_percentiles_are_within_their_relative_error(accuracy):
    chance = Random(accuracy)
    values = [chance.choice([-1, 1]) * 10 ** chance.uniform(-300, 300) for _ in range(300)]
    for p in (0, 0.01, 0.5, 0.99, 1):
        exact = sorted(values)[max(1, math.ceil(p * 300)) - 1]
        found = result_of(f"approx_percentile(x, {p}, {accuracy})", pa.float64(), values)
        assert abs(found - exact) <= abs(exact) / accuracy


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.int32(), [1, 2, 3], 2),
        (pa.int64(), [127], 127),
        (pa.int64(), [-127], -127),
        (pa.int64(), [2**63 - 1], 2**63 - 1),
        (pa.int64(), [-(2**63)], -(2**63)),
        (pa.int8(), [-128], -128),
        (pa.float64(), [0.0, -0.0], 0.0),
        (pa.float64(), [math.inf, 1.0, math.inf], math.inf),
        (pa.float64(), [-math.inf], -math.inf),
        (pa.float64(), [math.nan, math.nan, 1.0], math.nan),
        (pa.float32(), [0.5], 0.50390625),
        (pa.decimal128(10, 2), [Decimal("0.50")], 0.50390625),
        (pa.float64(), [None], None),
    ],
)
def test_medians_at_the_edges(kind, values, expected):
    found = result_of("approx_percentile(x, 0.5)", kind, values)
    assert repr(found) == repr(expected)

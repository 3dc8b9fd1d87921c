"""The aggregates of the reference, by examples worked by hand."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from tests.reference_values import accumulator

NAN = math.nan


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("count(x)", [1, None, 3], 2),
        ("count(x)", [None], 0),
        ("sum(x)", [None, None], None),
        ("sum(x)", [2**62, 2**62, -1], 2**63 - 1),
        ("sum(x)", [0.1] * 10, 1.0),
        ("sum(x)", [1e308, 1e308, -1e308], 1e308),
        ("sum(x)", [Decimal("0.1"), Decimal("0.2")], Fraction(3, 10)),
        ("sum(x)", [math.inf, 1.0], math.inf),
        ("avg(x)", [1, 2, None], Fraction(3, 2)),
        ("avg(x)", [0.5, 1.0], 0.75),
        ("min(x)", [NAN, 2.0, None], 2.0),
        ("max(x)", [2.0, math.inf], math.inf),
        ("min(x)", ["b", "a", None], "a"),
        ("max(x)", [False, True], True),
        ("first(x)", [None, 1], None),
        ("last(x)", [None, 1], 1),
    ],
)
def test_aggregate_of_one_column(text, column, expected):
    one = accumulator(text)
    for value in column:
        one.add((0,), {"x": value})
    assert one.result() == expected
    assert type(one.result()) is type(expected)


def test_nan_is_the_largest_float():
    one = accumulator("max(x)")
    for value in [1.0, NAN, math.inf]:
        one.add((0,), {"x": value})
    assert math.isnan(one.result())


@pytest.mark.parametrize(
    ("text", "rows", "expected"),
    [
        ("min_by(x, y)", [("a", None), ("b", 2), ("c", 1)], "c"),
        ("max_by(x, y)", [("a", None), ("b", 2), ("c", 1)], "b"),
        ("min_by(x, y)", [("b", 1), ("a", 1), (None, 1)], None),
        ("max_by(x, y)", [("a", 1), ("b", 1), (None, 1)], "b"),
        ("max_by(x, y)", [("a", 1.0), ("b", NAN)], "b"),
        ("min_by(x, y)", [("a", None)], None),
    ],
)
def test_values_by_another_column(text, rows, expected):
    one = accumulator(text)
    for x, y in rows:
        one.add((0,), {"x": x, "y": y})
    assert one.result() == expected


@pytest.mark.parametrize(
    ("moments", "first", "last"),
    [
        ([((2,), "a"), ((1,), "b")], "b", "a"),
        ([((1, 2), "a"), ((1, 1), "b")], "b", "a"),
        ([((1,), None), ((1,), "z"), ((1,), "a")], None, "z"),
    ],
)
def test_first_and_last_go_by_time_then_order_then_value(moments, first, last):
    ones = accumulator("first(x)"), accumulator("last(x)")
    for moment, value in moments:
        for one in ones:
            one.add(moment, {"x": value})
    assert (ones[0].result(), ones[1].result()) == (first, last)

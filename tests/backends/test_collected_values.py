"""Lists, sets and exact counts of different values, one state after the other."""

import math
from datetime import date
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs.fields import join
from idlestate.backends.shards.aggregates import bind

TYPES = {"x": pa.string(), "by": pa.int32(), "seq": pa.int32()}
NAN = math.nan


def added_up(text, batches, order=(), types=TYPES):
    """Batches are lists of (t_ms, values)."""
    (of,) = bind({"a": text}, types, order)
    state = None
    for batch in batches:
        values = {
            name: pa.array([row[1].get(name) for row in batch], kind)
            for name, kind in types.items()
        }
        times_ms = np.array([row[0] for row in batch])
        fields = of.lift(values, np.ones(len(batch), dtype=bool), times_ms)
        if state is not None:
            fields = [join(both) for both in zip(state, fields, strict=True)]
        state = of.accumulator.reduce(fields, np.array([0]))
    return of.accumulator.result(state)[0].as_py(), state


ROWS = [
    (3, {"x": "c", "by": 1}),
    (1, {"x": "b", "by": None}),
    (1, {"x": "a", "by": 7}),
    (2, {"x": None, "by": 9}),
    (2, {"x": "a", "by": 7}),
    (4, {"x": "d", "by": 7}),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("collect_list(x, 10)", ["a", "b", "a", "c", "d"]),
        ("collect_list(x, 3)", ["a", "b", "a"]),
        ("collect_list(x, 1)", ["a"]),
        ("collect_set(x, 10)", ["a", "b", "c", "d"]),
        ("collect_set(x, 3)", ["a", "b", "c"]),
        ("top_n(x, 2)", ["d", "c"]),
        ("top_n(x, 10)", ["d", "c", "b", "a", "a"]),
        ("top_n(x, 3, by)", [None, "d", "a"]),
        ("top_n(by, 2, x)", [7, 1]),
        ("count(distinct x)", 4),
        ("count(distinct x, 4)", 4),
        ("count(distinct x, 3)", None),
    ],
)
def test_by_an_example_in_every_order(text, expected):
    chance, states = Random(text), set()
    for size in (1, 2, 6):
        rows = chance.sample(ROWS, len(ROWS))
        found, state = added_up(text, [rows[at : at + size] for at in range(0, len(rows), size)])
        assert found == expected
        if not text.startswith("count"):
            states.add(repr([pa.array(field).to_pylist() for field in state]))
    assert len(states) <= 1


def test_order_columns_come_between_time_and_value():
    rows = [(1, {"x": "a", "seq": 2}), (1, {"x": "b", "seq": None}), (1, {"x": "c", "seq": 1})]
    assert added_up("collect_list(x, 9)", [rows], ("seq",))[0] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("collect_list(x, 2)", []), ("top_n(x, 2, by)", []), ("count(distinct x)", 0)],
)
def test_nothing_but_nulls(text, expected):
    assert added_up(text, [[(1, {})], [(2, {})]])[0] == expected


def test_beyond_its_cap_a_count_keeps_no_values_and_stays_beyond():
    rows = [(1, {"x": "a"}), (1, {"x": "b"}), (1, {"x": "c"})]
    found, state = added_up("count(distinct x, 2)", [rows, [(2, {"x": "a"})]])
    assert found is None
    assert [pa.array(field).to_pylist() for field in state] == [[1], [b""], [b""]]


@pytest.mark.parametrize(
    ("kind", "values", "as_set"),
    [
        (pa.float64(), [0.0, -0.0, NAN, NAN, 1.0], [0.0, 1.0, NAN]),
        (pa.float32(), [-0.5, math.inf], [-0.5, math.inf]),
        (pa.bool_(), [True, False, True], [False, True]),
        (pa.int8(), [-128, 127, -128], [-128, 127]),
        (
            pa.date32(),
            [date(2024, 2, 29), date(1969, 12, 31)],
            [date(1969, 12, 31), date(2024, 2, 29)],
        ),
        (
            pa.decimal128(30, 2),
            [Decimal("2.50"), Decimal("-1.00")],
            [Decimal("-1.00"), Decimal("2.50")],
        ),
        (pa.binary(), [b"\xff", b"", b"\x00"], [b"", b"\x00", b"\xff"]),
        (pa.string(), ["é", "", "\U0001f600", "z"], ["", "z", "é", "\U0001f600"]),
    ],
)
def test_values_of_every_type(kind, values, as_set):
    rows = [(1, {"x": value}) for value in values]
    for batches in ([rows], [[row] for row in rows]):
        types = {"x": kind}
        assert repr(added_up("collect_set(x, 9)", batches, types=types)[0]) == repr(as_set)
        assert len(added_up("collect_list(x, 9)", batches, types=types)[0]) == len(values)
        assert added_up("count(distinct x)", batches, types=types)[0] == len(as_set)


def test_each_life_has_items_of_its_own():
    (of,) = bind({"a": "collect_list(x, 2)"}, TYPES)
    values = {"x": pa.array(["a", "b", "c", None, "d", "e"])}
    fields = of.lift(values, np.array([True, True, True, True, False, True]), np.arange(6))
    state = of.accumulator.reduce(fields, np.array([1, 3, 5]))
    assert of.accumulator.result(state).to_pylist() == [["b", "c"], [], ["e"]]

"""Aggregates as users write them: what is accepted, and what is refused with which words."""

import pyarrow as pa
import pytest

from idlestate.backends.shards.aggregates import bind
from idlestate.config.aggregate_text import AggregateError, parse_call

TYPES = {"n": pa.int64(), "d": pa.decimal128(10, 2), "s": pa.string(), "b": pa.bool_()}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("count", " COUNT( * ) "),
        ("min_by(a, b)", "min_by( `a`,b )"),
        ("stddev(a)", "stddev_samp(a)"),
        ("variance(a)", "var_samp(a)"),
    ],
)
def test_two_spellings_of_one_aggregate(one: str, other: str) -> None:
    assert parse_call(one) == parse_call(other)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("median(n)", "unknown aggregate 'median(n)': the aggregates are count, sum, "),
        ("n + 1", "unknown aggregate"),
        ("sum", "'sum' is not valid: use sum(col) with names of columns"),
        ("sum(*)", "use sum(col) with"),
        ("sum(n, d)", "use sum(col) with"),
        ("sum(n + 1)", "use sum(col) with"),
        ("sum(distinct n)", "use sum(col) with"),
        ("count(n, d)", "use count or count(col) with"),
        ("min_by(n)", "use min_by(col, by) with"),
        ("max(x)", "aggregate a: column x of max(x) not found, or not of a simple type"),
        ("sum(s)", "aggregate a: sum(s) is over a column of type string; sum and avg take numbers"),
        ("stddev(s)", "stddev takes numbers"),
        ("bool_and(n)", "bool_and takes booleans"),
    ],
)
def test_what_cannot_be_computed_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(AggregateError) as refused:
        bind({"a": text}, TYPES)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bool_or(b)", pa.bool_()),
        ("stddev(n)", pa.float64()),
        ("var_pop(d)", pa.float64()),
    ],
)
def test_result_types(text: str, kind: pa.DataType) -> None:
    (bound,) = bind({"a": text}, TYPES)
    assert bound.result_type == kind

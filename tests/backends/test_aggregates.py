"""Aggregates as users write them: what is accepted, and what is refused with which words."""

import pyarrow as pa
import pytest

from idlestate.backends.shards.aggregates import bind
from idlestate.config.sql.aggregate_text import FUNCTIONS, AggregateError, parse_call

TYPES = {"n": pa.int64(), "d": pa.decimal128(10, 2), "s": pa.string(), "b": pa.bool_()}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("count", " COUNT( * ) "),
        ("min_by(a, b)", "min_by( `a`,b )"),
        ("stddev(a)", "stddev_samp(a)"),
        ("variance(a)", "var_samp(a)"),
        ("approx_percentile(a, 0.5)", "percentile_approx(a, .50, 100)"),
        ("count(distinct a)", "COUNT(DISTINCT  a, 1000)"),
        ("count(distinct a)", "count_distinct(a)"),
        ("approx_count_distinct(a)", "approx_count_distinct(a, 0.05)"),
    ],
)
def test_two_spellings_of_one_aggregate(one: str, other: str) -> None:
    assert parse_call(one) == parse_call(other)


@pytest.mark.parametrize(
    "text",
    [
        "count",
        "min_by(a, `b c`)",
        "max_by(`a``, b`, ```c`)",
        "top_n(a, 3, b)",
        "count(distinct a, 7)",
    ],
)
def test_an_aggregate_is_written_as_it_is_read(text: str) -> None:
    call = parse_call(text)
    assert parse_call(call.of(call.columns)) == call


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
        ("count(distinct n, d)", "use count(distinct col) or count(distinct col, cap) with"),
        ("count(distinct n, 0)", "cap is a whole number from 1 to 100000"),
        ("collect_list(n)", "use collect_list(col, n) with names of columns; n is a whole number"),
        ("top_n(n, 5, 3)", "aggregate a: column 3 of top_n(n, 5, 3) not found"),
        ("top_n(n, 1001)", "n is a whole number from 1 to 1000"),
        ("count(n, d)", "use count or count(col) with"),
        ("min_by(n)", "use min_by(col, by) with"),
        ("max(x)", "aggregate a: column x of max(x) not found, or not of a simple type"),
        ("sum(s)", "aggregate a: sum(s) is over a column of type string; sum and avg take numbers"),
        ("stddev(s)", "stddev takes numbers"),
        ("bool_and(n)", "bool_and takes booleans"),
        ("approx_percentile(s, 0.5)", "approx_percentile takes numbers"),
        ("approx_percentile(n)", "use approx_percentile(col, p) or approx_percentile(col, p, acc"),
        ("approx_percentile(n, 1.5)", "p is a number from 0 to 1; accuracy is a whole number fr"),
        ("approx_percentile(n, nan)", "p is a number from 0 to 1"),
        ("approx_percentile(n, 0.5, 0.1)", "accuracy is a whole number from 1 to 1000000"),
        ("approx_count_distinct(n, 0.001)", "rsd is a number from 0.005 to 0.39"),
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
        ("approx_percentile(n, 0.5)", pa.int64()),
        ("approx_percentile(d, 0.5)", pa.float64()),
        ("approx_count_distinct(s)", pa.int64()),
        ("count(distinct s)", pa.int64()),
        ("collect_list(s, 3)", pa.list_(pa.string())),
        ("top_n(d, 3, s)", pa.list_(pa.decimal128(10, 2))),
    ],
)
def test_result_types(text: str, kind: pa.DataType) -> None:
    (bound,) = bind({"a": text}, TYPES)
    assert bound.result_type == kind


TEXTS = {
    "count": "count",
    "count_distinct": "count(distinct n)",
    "approx_percentile": "approx_percentile(n, 0.5)",
    "percentile_approx": "percentile_approx(n, 0.5)",
    "min_by": "min_by(n, s)",
    "max_by": "max_by(n, s)",
    "bool_and": "bool_and(b)",
    "bool_or": "bool_or(b)",
    "collect_list": "collect_list(n, 3)",
    "collect_set": "collect_set(n, 3)",
    "top_n": "top_n(n, 3)",
}
STARTS: dict[str, object] = {
    "count": 0,
    "count_distinct": 0,
    "approx_count_distinct": 0,
    "collect_list": [],
    "collect_set": [],
    "top_n": [],
}
"""As docs/changing-a-job.md has it; all others start with null."""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_added_aggregate_starts_with_its_value_over_no_rows(function: str) -> None:
    (aggregate,) = bind({"a": TEXTS.get(function, f"{function}(n)")}, TYPES)
    blank = [column.blank for column in aggregate.columns]
    (value,) = aggregate.accumulator.result(blank).to_pylist()
    assert value == STARTS.get(function)

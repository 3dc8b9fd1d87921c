"""Queries that are refused: the place in the text, what is wrong there, what to write instead."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.config.sql.planning import plan_query
from idlestate.config.sql.query_error import QueryError, QueryPlace
from idlestate.errors import RefusedError
from tests.config.test_query_joins import JOINS, ROW_JOINS
from tests.config.test_query_over import CASES as OVERS
from tests.config.test_query_plans import COMPUTED, PLAIN
from tests.config.test_query_windows import DEDUPLICATED
from tests.config.test_refusals import table
from tests.lengths import law

ACCEPTED = [
    *(case[0] for case in (*PLAIN, *COMPUTED, *DEDUPLICATED, *JOINS, *ROW_JOINS, *OVERS)),
    "SELECT k, window.start, count(*) AS n FROM t GROUP BY k, window(ts, '1 hour', '10 minutes')",
    "SELECT /*+ STATE_TTL('o'='1d', 'p'='0s') */ o.i, p.x FROM o FULL JOIN p ON o.j = p.k",
    "SELECT /*+ RETENTION('r'='long') */ o.id, r.x FROM o ASOF JOIN r ON o.k = r.k AND o.t >= r.t",
]
REFUSED = table("queries.txt")


def refused(query: object) -> QueryError:
    with pytest.raises(QueryError) as caught:
        plan_query(query)
    return caught.value


@pytest.mark.parametrize(("query", "expected"), REFUSED)
def test_refused(query: str, expected: list[str]) -> None:
    assert [str(refused(query)).removeprefix("query, ")] == expected


@pytest.mark.parametrize("query", ["", " \n", None, 3, b"SELECT 1"])
def test_what_is_no_text(query: object) -> None:
    assert "the query is empty; pass a string such as SELECT ... FROM ..." in str(refused(query))


def test_place_counts_lines_and_columns_from_one() -> None:
    query = "SELECT k,\n  count(*) AS n\nFROM t\nGROUP BY k\n  LIMIT 3"
    place = refused(query).place
    assert (place.line, place.column, place.words) == (5, 3, "LIMIT")


def test_place_inside_of_a_subquery_is_that_in_the_whole_text() -> None:
    query = "SELECT k, count(*) FROM (\n  SELECT k FROM t\n  LIMIT 3) GROUP BY k"
    place = refused(query).place
    assert (place.line, place.column) == (3, 3)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (f"SELECT {'(' * 21}1{')' * 21} FROM t", "parentheses are nested deeper than 20 levels"),
        (f"SELECT {'a, ' * 1000}count(*) FROM t", "the query has more than 2,000 words"),
        (f"SELECT {'CASE WHEN ' * 600}", ""),
        (f"SELECT {'- ' * 1500} 1 FROM t", ""),
        (f"SELECT CAST(a AS {'array<' * 600}int{'>' * 600}) FROM t", ""),
    ],
)
def test_deep_and_long_queries(query: str, what: str) -> None:
    assert what in str(refused(query))


SIGNS = r"""( ) , ' " ` /*+ */ -- ; . :: \ ${a} @ # é 😀 1L x'1 r' OVER WINDOW window( FILTER
QUALIFY INTERVAL LATERAL VIEW DISTINCT UNION JOIN
IGNORE RESPECT NULLS st.f ASOF WITH CASE END EXCEPT USING NATURAL HAVING
STATE_TTL( RETENTION( 'o'='1d' FOR SYSTEM_TIME OF BETWEEN MONTH"""
WORDS = [*sorted({word for query in ACCEPTED for word in query.split()}), *SIGNS.split(), "\n"]


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """A valid query after a few changes of its characters and words, or cut off."""
    query = draw(st.sampled_from([*ACCEPTED, *(query for query, _ in REFUSED)]))
    for _ in range(draw(st.integers(0, 3))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(query))] * 2)))
        end = min(end, start + draw(st.integers(0, 12)))
        word = draw(st.one_of(st.just(""), st.sampled_from(WORDS), st.text(max_size=3)))
        query = query[:start] + word + query[end:]
    return query[: draw(st.integers(0, len(query)))] if draw(st.booleans()) else query


def places_of_plan(query: str) -> list[QueryPlace]:
    """The places that the plan of a query has, or the error."""
    try:
        plan = plan_query(query)
    except QueryError as refusal:
        found = refusal
    else:
        keys: Any = plan.arguments.get("key", plan.arguments.get("on"))
        assert {name.lower() for name in keys} <= {*plan.named}
        return [*plan.places, *plan.named.values()]
    assert found.what
    assert found.fix
    return [found.place]


def plan_or_refusal(query: str) -> None:
    places = places_of_plan(query)
    for place in places:
        assert 1 <= place.line <= query.count("\n") + 1
        assert 1 <= place.column <= len(query) + 1


@law(35, mutations())
def test_changed_queries_have_a_plan_or_a_refusal(query: str) -> None:
    plan_or_refusal(query)


@given(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join))
def test_words_in_any_order_have_a_plan_or_a_refusal(query: str) -> None:
    plan_or_refusal(f"SELECT {query}")


@given(st.text(max_size=60))
def test_any_text_has_a_plan_or_a_refusal(query: str) -> None:
    plan_or_refusal(query)


def test_the_error_is_one_that_callers_know() -> None:
    assert issubclass(QueryError, RefusedError)

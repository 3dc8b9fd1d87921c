"""Queries that are accepted: each is the call that its Python form is."""

from typing import Any

import pytest

from idlestate.config.sql.aggregate_text import problem_with
from idlestate.config.sql.planning import plan_query
from idlestate.config.sql.query_plan import Computed, Named, QueryPlan, Selected, Step, Where


def plan(query: str) -> QueryPlan:
    return plan_query(query)


# Query, key, aggregates.
PLAIN: list[tuple[str, list[str], dict[str, str]]] = [
    (
        "SELECT sessionId, COUNT(*) FROM clicks GROUP BY sessionId",
        ["sessionId"],
        {"count(1)": "count"},
    ),
    ("SELECT id, COUNT(1) AS n FROM t GROUP BY id", ["id"], {"n": "count"}),
    ("SELECT id, COUNT() AS n FROM t GROUP BY id", ["id"], {"n": "count"}),
    ("select id, count(v) n from t group by id;", ["id"], {"n": "count(v)"}),
    ("SELECT ALL id, count(v) n FROM t GROUP BY id", ["id"], {"n": "count(v)"}),
    (
        "SELECT a, b, sum(v) AS s, min(v) AS low, max(v) AS high FROM t GROUP BY a, b",
        ["a", "b"],
        {"s": "sum(v)", "low": "min(v)", "high": "max(v)"},
    ),
    (
        "SELECT k, avg(v) AS a, mean(v) AS m FROM t GROUP BY k",
        ["k"],
        {"a": "avg(v)", "m": "avg(v)"},
    ),
    (
        "SELECT k, first(v) AS a, first_value(v) AS b, any_value(v) AS c FROM t GROUP BY k",
        ["k"],
        {"a": "first(v)", "b": "first(v)", "c": "first(v)"},
    ),
    (
        "SELECT k, last(v) AS a, last_value(v) AS b FROM t GROUP BY k",
        ["k"],
        {"a": "last(v)", "b": "last(v)"},
    ),
    (
        "SELECT k, every(ok) AS a, some(ok) AS b, std(v) AS c FROM t GROUP BY k",
        ["k"],
        {"a": "bool_and(ok)", "b": "bool_or(ok)", "c": "stddev(v)"},
    ),
    (
        "SELECT k, count(DISTINCT v), count(DISTINCT v, 10) AS b FROM t GROUP BY k",
        ["k"],
        {"count(distinct v)": "count(distinct v)", "b": "count(distinct v, 10)"},
    ),
    (
        "SELECT k, approx_percentile(v, 0.95) AS p, top_n(v, 3, ts) AS t FROM t GROUP BY k",
        ["k"],
        {"p": "approx_percentile(v, 0.95)", "t": "top_n(v, 3, ts)"},
    ),
    (
        "SELECT k, collect_list(v, 5) AS a, collect_set(v, 5) AS b FROM t GROUP BY k",
        ["k"],
        {"a": "collect_list(v, 5)", "b": "collect_set(v, 5)"},
    ),
    (
        "SELECT k, min_by(v, ts) AS a, max_by(v, ts) FROM t GROUP BY k",
        ["k"],
        {"a": "min_by(v, ts)", "max_by(v, ts)": "max_by(v, ts)"},
    ),
    ("SELECT c.k, max(c.v) AS v FROM db.clicks AS c GROUP BY c.k", ["k"], {"v": "max(v)"}),
    ("SELECT t.k, max(t.v) AS v FROM t GROUP BY t.k", ["k"], {"v": "max(v)"}),
    ("SELECT `a b`, max(`c,d`) AS v FROM t GROUP BY `a b`", ["a b"], {"v": "max(`c,d`)"}),
    ("SELECT k, count(*) AS n FROM t GROUP BY 1", ["k"], {"n": "count"}),
    ("SELECT k, count(*) AS n FROM t GROUP BY (k)", ["k"], {"n": "count"}),
    ("SELECT key, date, count(*) AS n FROM t GROUP BY key, date", ["key", "date"], {"n": "count"}),
    ("SELECT k, -- the key\n count(*) /* all */ AS n FROM t GROUP BY k", ["k"], {"n": "count"}),
]


@pytest.mark.parametrize(("query", "key", "aggregates"), PLAIN)
def test_keys_and_aggregates(query: str, key: list[str], aggregates: dict[str, str]) -> None:
    found = plan(query)
    assert found.operator == "retain"
    assert found.arguments == {"key": key, "aggregates": aggregates}
    assert list(found.arguments["aggregates"]) == list(aggregates)  # type: ignore[call-overload]
    assert (found.output, found.having, found.retention) == (None, None, None)
    assert all(problem_with(text) is None for text in aggregates.values())
    assert not [step for step in found.rows.steps if isinstance(step, Computed | Where | Selected)]


# Query, steps in front, key, aggregates, output.
COMPUTED: list[tuple[str, list[Step], list[str], dict[str, str], tuple[str, ...] | None]] = [
    (
        "SELECT k, sum(a * b) AS total FROM t WHERE a > 3 AND b IN (1,2) GROUP BY k",
        [Where("a > 3 AND b IN(1, 2)"), Computed({"a * b": "a * b"})],
        ["k"],
        {"total": "sum(`a * b`)"},
        None,
    ),
    (
        "SELECT lower(page) AS p, count(*) AS n FROM t GROUP BY lower(page)",
        [Computed({"p": "lower(page)"})],
        ["p"],
        {"n": "count"},
        None,
    ),
    (
        "SELECT lower(page) AS p, count(*) AS n FROM t GROUP BY p",
        [Computed({"p": "lower(page)"})],
        ["p"],
        {"n": "count"},
        None,
    ),
    (
        "SELECT count(*) AS n, lower( page ) AS p FROM t GROUP BY 2",
        [Computed({"p": "lower(page)"})],
        ["p"],
        {"n": "count"},
        ("`n`", "`p`"),
    ),
    (
        "SELECT upper(lower(page)) AS u, count(*) AS n FROM t GROUP BY LOWER(page)",
        [Computed({"LOWER(page)": "LOWER(page)"})],
        ["LOWER(page)"],
        {"n": "count"},
        ("upper(`LOWER(page)`) AS `u`", "`n`"),
    ),
    (
        "SELECT k, sum(v) / count(*) AS mean, count(*) AS n FROM t GROUP BY k",
        [],
        ["k"],
        {"n": "count", "sum(v)": "sum(v)"},
        ("`k`", "`sum(v)` / `n` AS `mean`", "`n`"),
    ),
    (
        "SELECT k AS id, count(*) AS n FROM t GROUP BY k",
        [],
        ["k"],
        {"n": "count"},
        ("`k` AS `id`", "`n`"),
    ),
    (
        "SELECT k AS id, count(*) AS n FROM t GROUP BY id",
        [],
        ["k"],
        {"n": "count"},
        ("`k` AS `id`", "`n`"),
    ),
    ("SELECT count(*) AS n FROM t GROUP BY k", [], ["k"], {"n": "count"}, ("`n`",)),
    (
        "SELECT k, 'x' AS kind, count(*) + 1 AS n FROM t GROUP BY k",
        [],
        ["k"],
        {"count(1)": "count"},
        ("`k`", "'x' AS `kind`", "`count(1)` + 1 AS `n`"),
    ),
    (
        "SELECT k, count(*) FILTER (WHERE v > 0) n, sum(v) FILTER (WHERE ok) s FROM t GROUP BY k",
        [
            Computed(
                {
                    "CASE WHEN v > 0 THEN 1 END": "CASE WHEN v > 0 THEN 1 END",
                    "CASE WHEN ok THEN v END": "CASE WHEN ok THEN v END",
                }
            )
        ],
        ["k"],
        {"n": "count(`CASE WHEN v > 0 THEN 1 END`)", "s": "sum(`CASE WHEN ok THEN v END`)"},
        None,
    ),
    (
        "SELECT k, count_if(v > 0) AS n FROM t GROUP BY k",
        [Computed({"CASE WHEN v > 0 THEN 1 END": "CASE WHEN v > 0 THEN 1 END"})],
        ["k"],
        {"n": "count(`CASE WHEN v > 0 THEN 1 END`)"},
        None,
    ),
    (
        "SELECT k, max(coalesce(a, b)) AS v FROM t GROUP BY k",
        [Computed({"coalesce(a, b)": "coalesce(a, b)"})],
        ["k"],
        {"v": "max(`coalesce(a, b)`)"},
        None,
    ),
    (
        "SELECT user.id, upper(user.id) AS u, count(*) AS n FROM t GROUP BY user.id",
        [Computed({"user.id": "user.id"})],
        ["user.id"],
        {"n": "count"},
        ("`user.id` AS `id`", "upper(`user.id`) AS `u`", "`n`"),
    ),
    (
        "SELECT (k), count(*) AS n FROM t GROUP BY (k)",
        [],
        ["k"],
        {"n": "count"},
        ("(k) AS `k`", "`n`"),
    ),
    (
        "SELECT user.id AS u, count(*) AS n FROM t GROUP BY user.id",
        [Computed({"u": "user.id"})],
        ["u"],
        {"n": "count"},
        None,
    ),
    (
        "SELECT k, count(*) AS n FROM t c WHERE c.v IS DISTINCT FROM 3 GROUP BY k",
        [Named("c"), Where("c.v IS DISTINCT FROM 3")],
        ["k"],
        {"n": "count"},
        None,
    ),
    (
        "SELECT s.k, max(y) y FROM (SELECT u.id k, v y FROM t WHERE v) s WHERE y > 2 GROUP BY s.k",
        [
            Where("v"),
            Selected(("u.id AS `k`", "v AS `y`")),
            Named("s"),
            Where("y > 2"),
        ],
        ["k"],
        {"y": "max(y)"},
        None,
    ),
    (
        "SELECT k, count(*) n FROM (SELECT *, a + b k FROM (SELECT * FROM t WHERE a)) GROUP BY k",
        [Where("a"), Selected(("*", "a + b AS `k`"))],
        ["k"],
        {"n": "count"},
        None,
    ),
]


@pytest.mark.parametrize(("query", "steps", "key", "aggregates", "output"), COMPUTED)
def test_what_is_computed_before_and_after(
    query: str,
    steps: list[Step],
    key: list[str],
    aggregates: dict[str, str],
    output: tuple[str, ...] | None,
) -> None:
    found = plan(query)
    assert list(found.rows.steps) == steps
    assert found.arguments == {"key": key, "aggregates": aggregates}
    assert found.output == output


LAYOUTS = [
    "SELECT k,sum(a*b)AS s,max(f(a,1))FROM t WHERE a>=-1 GROUP BY k",
    "select  K , SUM( a * b ) s , Max ( f ( a , 1 ) )\nfrom t -- here\nwhere a >= -1\ngroup by k",
]


def test_layout_and_case_of_words_change_nothing_that_is_stored() -> None:
    first, second = (plan(each).arguments for each in LAYOUTS)
    assert first["aggregates"] == second["aggregates"]


@pytest.mark.parametrize(
    ("hint", "ttl_ms", "policy"),
    [
        ("STATE_TTL('clicks'='1d')", 86_400_000, None),
        ("state_ttl('CLICKS' = '90m')", 5_400_000, None),
        ("STATE_TTL('c'='0s')", 0, None),
        ("STATE_TTL('shop.clicks'='1h')", 3_600_000, None),
        ("RETENTION('c'='sessions')", None, "sessions"),
    ],
)
def test_hints(hint: str, ttl_ms: int | None, policy: str | None) -> None:
    found = plan(f"SELECT /*+ {hint} */ k, count(*) FROM shop.clicks c GROUP BY k").retention
    assert found is not None
    assert (found.ttl_ms, found.policy) == (ttl_ms, policy)


def test_a_hint_of_a_subquery_counts() -> None:
    query = "SELECT k, count(*) FROM (SELECT /*+ STATE_TTL('t'='1h') */ k FROM t) GROUP BY k"
    found: Any = plan(query).retention
    assert found.ttl_ms == 3_600_000


def test_every_name_of_the_operator_has_its_place() -> None:
    query = """SELECT user.id, sum(a + b) AS s, count(*) FROM t
    GROUP BY user.id, window(ts, '1 hour')"""
    found = plan(query)
    places = {name: (each.line, each.column) for name, each in found.named.items()}
    assert places == {
        "user.id": (2, 14),
        "a + b": (1, 17),
        "s": (1, 17),
        "count(1)": (1, 34),
        "window": (2, 23),
        "ts": (2, 23),
    }
    assert found.place_of("WINDOW").words == "window(ts, '1 hour')"
    assert found.place_of("other") == found.rows.place


def test_names_that_would_be_ambiguous_are_told() -> None:
    found = plan("SELECT lower(page) AS p, count(*) AS n\nFROM t GROUP BY p")
    assert {name: (place.line, place.column) for name, place in found.new_names.items()} == {
        "p": (2, 17)
    }

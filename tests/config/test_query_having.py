"""HAVING in queries: a condition that stays true is a filter of the result."""

import pytest

from idlestate.config.sql.planning import plan_query


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("count(*) > 3", "`n` > 3"),
        ("n >= 3", "n >= 3"),
        ("3 < count(*)", "3 < `n`"),
        ("count(*) > length(k)", "`n` > length(k)"),
        ("(min(v)) < 3", "(`min(v)`) < 3"),
        ("max(v) > 10 AND min(v) <= 2", "`max(v)` > 10 AND `min(v)` <= 2"),
        ("(n > 3 OR k = 'a')", "(n > 3 OR k = 'a')"),
        ("k LIKE 'a%'", "k LIKE 'a%'"),
    ],
)
def test_having_that_stays_true_is_a_filter_of_the_result(condition: str, expected: str) -> None:
    found = plan_query(f"SELECT k, count(*) AS n FROM t GROUP BY k HAVING {condition}")
    assert found.having == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k AS k2, count(*) AS n FROM t GROUP BY k2 HAVING k2 <> 'a'", "`k` <> 'a'"),
        (
            "SELECT lower(p) AS q, max(v) AS m FROM t GROUP BY 1 HAVING q > 'a' AND m > 3",
            "q > 'a' AND m > 3",
        ),
        (
            "SELECT k, upper(k) AS u, count(*) AS n FROM t GROUP BY k HAVING u = 'A' OR t.k = 'b'",
            "(upper(k)) = 'A' OR t.k = 'b'",
        ),
        (
            """SELECT k, window(ts, '1 hour').start AS s, count(*) AS n FROM t
            GROUP BY k, window(ts, '1 hour') HAVING hour(s) = 3""",
            "hour((named_struct('start', window_start, 'end', window_end).start)) = 3",
        ),
        (
            "SELECT user.id, count(*) AS n FROM t GROUP BY user.id HAVING user.id > 3",
            "`user.id` > 3",
        ),
    ],
)
def test_having_may_name_what_is_selected(query: str, expected: str) -> None:
    assert plan_query(query).having == expected


def test_an_aggregate_of_having_alone_is_computed_and_not_selected() -> None:
    found = plan_query("SELECT k, count(*) AS n FROM t GROUP BY k HAVING max(v) > 1")
    assert found.arguments["aggregates"] == {"n": "count", "max(v)": "max(v)"}
    assert found.output == ("`k`", "`n`")

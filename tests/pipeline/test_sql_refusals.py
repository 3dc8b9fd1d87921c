"""Queries that Spark or an operator refuses: the error has the place in the text."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from idlestate import Policy, TimeDomain, sql
from idlestate.errors import RefusedError
from tests.pipeline.test_sql import SHARED, clicks  # noqa: F401 - the fixture

CLICKS = Path(__file__).resolve().parents[2] / "config" / "clicks.yaml"
SUM_OVER = "sum(a) OVER (PARTITION BY k ORDER BY ts)"
NUMBERED = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS n FROM small)"


@pytest.mark.parametrize(
    ("query", "changes", "told"),
    [
        (
            "SELECT k, count(*) FROM visits GROUP BY k",
            {},
            "operator 'q': query, line 1, column 25, \"visits\": The table or view `visits` cannot",
        ),
        (
            "SELECT k, count(*) FROM clicks WHERE c > 1 GROUP BY k",
            {},
            'query, line 1, column 38, "c > 1": A column, variable, or function',
        ),
        (
            "SELECT k, sum(a) AS s, sum(a + c) AS t FROM clicks GROUP BY k",
            {},
            'query, line 1, column 24, "sum(a + c)": A column, variable',
        ),
        (
            "SELECT k, count(*) AS n, nope(max(a)) AS m FROM clicks GROUP BY k",
            {},
            'query, line 1, column 26, "nope(max(a)) AS m": Cannot resolve routine `nope`',
        ),
        (
            "SELECT k, count(*) AS n FROM clicks GROUP BY k HAVING nope(k)",
            {},
            'query, line 1, column 55, "nope(k)": Cannot resolve routine `nope`',
        ),
        (
            "SELECT k, max(c) AS m FROM clicks GROUP BY k",
            {},
            "operator 'q': query, line 1, column 11, \"max(c)\": aggregate m: column c of max",
        ),
        (
            "SELECT k, max(user) AS m FROM clicks GROUP BY k",
            {},
            'query, line 1, column 11, "max(user)": aggregate m: column user is of type struct<id',
        ),
        (
            "SELECT k,\n sum(page) AS s FROM clicks GROUP BY k",
            {},
            'query, line 2, column 2, "sum(page)": aggregate s: sum(page) is over a column of type',
        ),
        (
            "SELECT kk, count(*) FROM clicks GROUP BY kk",
            {},
            'query, line 1, column 42, "kk": column kk not found',
        ),
        (
            "SELECT a / 2 AS h, count(*) AS n FROM clicks GROUP BY h",
            {},
            'query, line 1, column 8, "a / 2": key column h is of type double',
        ),
        (
            f"SELECT k, {SUM_OVER} AS b, user FROM clicks",
            {},
            'query, line 1, column 58, "user": column user is of type struct',
        ),
        (
            f"SELECT k, {SUM_OVER} AS s, x FROM clicks",
            {},
            'query, line 1, column 58, "x": A column, variable',
        ),
        (
            f"SELECT *, {SUM_OVER} AS s FROM clicks",
            {},
            'query, line 1, column 62, "clicks": column user is of type struct',
        ),
        (
            f"SELECT *, {SUM_OVER} AS page FROM small",
            {},
            'ORDER BY ts)": columns: page is a column of the input too; choose another name',
        ),
        (
            "SELECT k, count(*) AS n FROM (SELECT k, ts, x + 1 AS y FROM clicks) GROUP BY k",
            {},
            'query, line 1, column 45, "x + 1": A column, variable',
        ),
        (
            f"SELECT *, b + 1 AS page FROM {NUMBERED.format('ts')} WHERE n = 1",
            {},
            'query, line 1, column 11, "b + 1 AS page": two columns are called page; list the',
        ),
        (
            f"SELECT * FROM {NUMBERED.format('b')} WHERE n = 1",
            {"event_time": None},
            'query, line 1, column 69, "b": time column b is of type int; cast it to timestamp',
        ),
        (
            "SELECT lower(k) AS page, count(*) AS n FROM clicks GROUP BY page",
            {},
            'line 1, column 61, "page": page is a column of the input too',
        ),
        (
            "SELECT date_trunc('HOUR', ts) AS ts, count(*) AS n FROM clicks GROUP BY 1",
            {},
            "ts is computed, but also the name of a column that another argument uses",
        ),
        (
            "SELECT /*+ RETENTION('clicks'='p') */ k, count(*) FROM clicks GROUP BY k",
            {},
            "column 12, \"RETENTION('clicks'='p')\": policy p is not known; pass its file",
        ),
        ("SELECT k, count(*) FROM clicks LIMIT 3", {}, "line 1, column 32"),
        (
            "SELECT DISTINCT k FROM clicks",
            {"read_when": "a"},
            "read_when does not apply to this query, which is a call of dedup",
        ),
        (
            f"SELECT * FROM {NUMBERED.format('b')} WHERE n = 1",
            {},
            "the query uses b as event time, but event_time is ts",
        ),
        (
            f"SELECT * FROM {NUMBERED.format('ts')} WHERE n = 1",
            {"policy": Policy(ttl="1h", time=TimeDomain.PROCESSING)},
            "the rows are ordered by ts, but the policy uses processing time",
        ),
        (
            "SELECT k, count(*) AS n FROM clicks GROUP BY k, window(ts, '1 hour')",
            {},
            "query, line 1, column 49, \"window(ts, '1 hour')\": policy cannot be combined",
        ),
        (
            "SELECT k, count(*) AS n FROM clicks GROUP BY k, window(ts, '1 hour')",
            {"policy": None, "read_when": "b"},
            "query, line 1, column 49, \"window(ts, '1 hour')\": read_when cannot be combined",
        ),
        (
            "SELECT /*+ RETENTION('clicks'='p') */ k, count(*) FROM clicks GROUP BY k",
            {"policy": None, "config": CLICKS},
            "query, line 1, column 12, \"RETENTION('clicks'='p')\": " + f"{CLICKS} has no policy",
        ),
    ],
)
def test_refused_with_the_place(
    spark: SparkSession,
    clicks: DataFrame,  # noqa: F811 - the fixture
    query: str,
    changes: dict[str, Any],
    told: str,
) -> None:
    with pytest.raises(RefusedError) as caught:
        sql(spark, query, **{**SHARED, **changes})
    assert told in str(caught.value)

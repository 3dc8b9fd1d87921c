"""Windows and deduplication in queries: each is the call that its Python form is."""

import pytest

from idlestate.config.sql.planning import plan_query
from idlestate.config.sql.query_plan import Computed, Named, Only, Selected, Step, Where
from idlestate.retention.windows import Windows, hopping, session, tumbling

STRUCT = "named_struct('start', window_start, 'end', window_end)"

# What GROUP BY says, the windows, the time, what is selected.
WINDOWS: list[tuple[str, Windows, tuple[str, ...]]] = [
    ("k, n | k, window(ts, '10 minutes')", tumbling("10m"), ("`k`", "`n`")),
    ("k, window_start, window_end, n | window(t.ts, '10m'), k", tumbling("10m"), ()),
    (
        "k, window, n | k, window(ts, '1 hour 30 minutes', '10 minutes')",
        hopping("90m", "10m"),
        ("`k`", f"{STRUCT} AS `window`", "`n`"),
    ),
    (
        "window.start, window.end AS e, n | k, window(ts, '1 DAY')",
        tumbling("1d"),
        ("`window_start` AS `start`", "`window_end` AS `e`", "`n`"),
    ),
    (
        "k, date_trunc('DAY', session_window.start) AS d, n | k, session_window(ts, '30 minutes')",
        session("30m"),
        ("`k`", "date_trunc('DAY', window_start) AS `d`", "`n`"),
    ),
    (
        "window(ts, '10 minutes') AS w, n | k, w",
        tumbling("10m"),
        (f"{STRUCT} AS `w`", "`n`"),
    ),
    (
        "window(ts, '10 minutes').end AS e, n | k, window(ts, '10 minutes')",
        tumbling("10m"),
        (f"{STRUCT}.end AS `e`", "`n`"),
    ),
]


@pytest.mark.parametrize(("parts", "windows", "output"), WINDOWS)
def test_windows(parts: str, windows: Windows, output: tuple[str, ...]) -> None:
    selected, _, keys = parts.partition(" | ")
    found = plan_query(
        f"SELECT {selected.replace(', n', ', count(*) AS n')} FROM t GROUP BY {keys}"
    )
    assert found.arguments == {
        "key": ["k"],
        "aggregates": {"n": "count"},
        "window": windows,
        "event_time": "ts",
    }
    assert found.output == (output or None)


NUMBERED = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts{}) AS rn FROM t)"
# Query, steps, arguments, output.
DEDUPLICATED: list[tuple[str, list[Step], dict[str, object], tuple[str, ...]]] = [
    (
        "SELECT DISTINCT a, b FROM t",
        [Only(("a", "b"))],
        {"key": ["a", "b"], "keep": "first"},
        ("`a`", "`b`"),
    ),
    (
        "SELECT DISTINCT a AS x, lower(b) AS b FROM t c WHERE c.a > 3",
        [Named("c"), Where("c.a > 3"), Computed({"b": "lower(b)"}), Only(("a", "b"))],
        {"key": ["a", "b"], "keep": "first"},
        ("`a` AS `x`", "`b`"),
    ),
    (
        f"SELECT * FROM {NUMBERED.format('')} WHERE rn = 1",
        [],
        {"key": ["id"], "keep": "first", "event_time": "ts"},
        ("*", "1 AS `rn`"),
    ),
    (
        f"SELECT id, v + 1 AS w FROM {NUMBERED.format(' DESC, seq DESC')} s WHERE s.rn <= 1",
        [],
        {"key": ["id"], "keep": "last", "event_time": "ts", "order": ["seq"]},
        ("id", "v + 1 AS `w`"),
    ),
    (
        f"SELECT s.rn FROM {NUMBERED.format('')} s WHERE rn = 1",
        [],
        {"key": ["id"], "keep": "first", "event_time": "ts"},
        ("1 AS `rn`",),
    ),
    (
        """
        SELECT *, rn * 2 AS two FROM (
            SELECT id, lower(v) AS v, ROW_NUMBER() OVER (PARTITION BY id, g ORDER BY c.ts) rn
            FROM c WHERE v > 'a') WHERE 1 = rn
        """,
        [Where("v > 'a'"), Selected(("`id`", "lower(v) AS `v`", "`g`", "`ts`"))],
        {"key": ["id", "g"], "keep": "first", "event_time": "ts"},
        ("`id`", "`v`", "1 AS `rn`", "1 * 2 AS `two`"),
    ),
]


@pytest.mark.parametrize(("query", "steps", "arguments", "output"), DEDUPLICATED)
def test_deduplication(
    query: str, steps: list[Step], arguments: dict[str, object], output: tuple[str, ...]
) -> None:
    found = plan_query(query)
    assert found.operator == "deduplicate"
    assert list(found.rows.steps) == steps
    assert found.arguments == arguments
    assert found.output == output

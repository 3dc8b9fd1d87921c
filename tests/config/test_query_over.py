"""Aggregates with OVER in queries: each is the call that its Python form is."""

import pytest

from idlestate.config.sql.planning import plan_query
from idlestate.config.sql.query_plan import Computed, Named, Only, Selected, Step, Where

OVER = "OVER (PARTITION BY id ORDER BY ts{})"
FRAMES: list[tuple[str, dict[str, object]]] = [
    ("ROWS BETWEEN 9 PRECEDING AND CURRENT ROW", {"rows": 10}),
    ("ROWS 9 PRECEDING", {"rows": 10}),
    ("ROWS CURRENT ROW", {"rows": 1}),
    ("ROWS UNBOUNDED PRECEDING", {"rows": "unbounded"}),
    ("RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND CURRENT ROW", {"range": "1h"}),
    ("RANGE BETWEEN INTERVAL 90 MINUTES PRECEDING AND CURRENT ROW", {"range": "1h30m"}),
    ("RANGE INTERVAL '1 day 6 hours' PRECEDING", {"range": "1d6h"}),
    ("RANGE CURRENT ROW", {"range": "0s"}),
    ("RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", {}),
]
COUNTED: dict[str, object] = {"key": ["id"], "event_time": "ts", "rows": "unbounded"}
CASES: list[tuple[str, list[Step], dict[str, object], tuple[str, ...] | None]] = [
    (
        f"SELECT *, sum(v) {OVER.format('')} AS total FROM t",
        [],
        {"key": ["id"], "columns": {"total": "sum(v)"}, "event_time": "ts"},
        None,
    ),
    (
        f"""
        SELECT c.id, page AS p, sum(v * 2) {OVER.format(", seq")} AS s, count(*)
        {OVER.format(", seq")} FROM t c WHERE c.v > 0
        """,
        [
            Named("c"),
            Where("c.v > 0"),
            Computed({"v * 2": "v * 2"}),
            Only(("id", "seq", "page", "v * 2")),
        ],
        {
            "key": ["id"],
            "columns": {"s": "sum(`v * 2`)", "count(1)": "count"},
            "event_time": "ts",
            "order": ["seq"],
        },
        ("`id`", "`page` AS `p`", "`s`", "`count(1)`"),
    ),
    (
        f"SELECT id, max(v) {OVER.format(' RANGE UNBOUNDED PRECEDING')} AS m FROM t",
        [Only(("id", "v"))],
        {"key": ["id"], "columns": {"m": "max(v)"}, "event_time": "ts"},
        ("`id`", "`m`"),
    ),
    (
        f"SELECT *, ROW_NUMBER() {OVER.format(', seq')} AS n FROM t",
        [],
        COUNTED | {"columns": {"n": "count"}, "order": ["seq"]},
        None,
    ),
    (
        f"SELECT id, row_number() {OVER.format('')} FROM t",
        [Only(("id",))],
        COUNTED | {"columns": {"row_number()": "count"}},
        ("`id`", "`row_number()`"),
    ),
    *(
        (
            f"SELECT *, count(*) {OVER.format(f' {frame}')} AS n FROM t",
            [],
            {"key": ["id"], "columns": {"n": "count"}, "event_time": "ts"} | arguments,
            None,
        )
        for frame, arguments in FRAMES
    ),
]


@pytest.mark.parametrize(("query", "steps", "arguments", "output"), CASES)
def test_over(
    query: str, steps: list[Step], arguments: dict[str, object], output: tuple[str, ...] | None
) -> None:
    found = plan_query(query)
    assert found.operator == "over"
    assert list(found.rows.steps) == steps
    assert found.arguments == arguments
    assert found.output == output


FIRST = f"(SELECT *, ROW_NUMBER() {OVER.format('')} AS rn FROM t)"


@pytest.mark.parametrize(
    ("query", "limit", "output"),
    [
        (f"SELECT * FROM {FIRST} WHERE rn <= 3", 3, ("*",)),
        (f"SELECT id, rn FROM {FIRST} s WHERE s.rn < 5", 4, ("id", "`rn`")),
        (f"SELECT s.rn AS n, rn + 1 AS m FROM {FIRST} s WHERE 2 >= RN", 2,
         ("`rn` AS `n`", "`rn` + 1 AS `m`")),
    ],
)  # fmt: skip
def test_the_first_rows_of_each_key(query: str, limit: int, output: tuple[str, ...]) -> None:
    found = plan_query(query)
    assert (found.operator, found.having) == ("over", f"`rn` <= {limit}")
    assert found.arguments == COUNTED | {"columns": {"rn": "count"}}
    assert found.output == output


def test_the_first_rows_of_selected_columns() -> None:
    query = "SELECT * FROM (SELECT id, lower(v) AS w, ROW_NUMBER() {} AS rn FROM t) WHERE rn <= 3"
    found = plan_query(query.format(OVER.format("")))
    assert list(found.rows.steps) == [Selected(("`id`", "lower(v) AS `w`", "`ts`"))]
    assert found.output == ("`id`", "`w`", "`rn`")

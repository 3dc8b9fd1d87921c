"""Joins in queries: each is the call that its Python form is."""

import pytest

from idlestate.config.sql.planning import plan_query
from idlestate.config.sql.query_plan import Computed, Named, Only, Step, Where

# Query, steps of the probes, steps of the versions, arguments, output, filter of the result.
Case = tuple[str, list[Step], list[Step], dict[str, object], tuple[str, ...] | None, str | None]
JOINS: list[Case] = [
    (
        """
        SELECT o.id, o.amount * r.rate AS eur
        FROM orders o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.t AS r ON o.cur = r.cur
        """,
        [Named("o"), Only(("cur", "id", "amount"))],
        [Named("r"), Only(("cur", "rate"))],
        {"on": ["cur"], "how": "left", "columns": ["rate"], "event_time": "t"},
        ("`id`", "`amount` * `rate` AS `eur`"),
        None,
    ),
    (
        """
        SELECT orders.id, rates.rate FROM orders ASOF JOIN rates
        ON orders.cur = rates.currency AND orders.t >= rates.ts WHERE orders.id > 3
        """,
        [Where("orders.id > 3"), Only(("cur", "id"))],
        [Computed({"cur": "`currency`"}), Only(("cur", "rate"))],
        {
            "on": ["cur"],
            "how": "inner",
            "columns": ["rate"],
            "event_time": "t",
            "version_event_time": "ts",
        },
        ("`id`", "`rate`"),
        None,
    ),
    (
        """
        SELECT o.*, r.rate FROM orders o
        ASOF LEFT JOIN (SELECT * FROM rates WHERE ok) r ON r.cur = o.cur AND r.t <= o.t
        WHERE r.rate > 1
        """,
        [Named("o")],
        [Where("ok"), Named("r"), Only(("cur", "rate"))],
        {
            "on": ["cur"],
            "how": "left",
            "columns": ["rate"],
            "event_time": "t",
            "version_event_time": "t",
        },
        None,
        "`rate` > 1",
    ),
    (
        """
        SELECT o.id, r.id AS rate_id, r.t FROM orders o
        ASOF JOIN rates r ON o.cur = r.cur AND o.t >= r.t
        """,
        [Named("o"), Only(("cur", "id"))],
        [Named("r"), Computed({"r.id": "`id`", "r.t": "`t`"}), Only(("cur", "r.id", "r.t"))],
        {
            "on": ["cur"],
            "how": "inner",
            "columns": ["r.id", "r.t"],
            "event_time": "t",
            "version_event_time": "t",
        },
        ("`id`", "`r.id` AS `rate_id`", "`r.t` AS `t`"),
        None,
    ),
]

DAY = {"event_time": "t", "right_event_time": "t", "between": ("-5m", "1d")}
ROW_JOINS: list[Case] = [
    (
        """
        SELECT o.k, o.id, p.sum FROM orders o LEFT OUTER JOIN payments p ON o.k = p.order_id
        AND p.t BETWEEN o.t - INTERVAL '5' MINUTE AND o.t + INTERVAL '1 day'
        WHERE o.id > 3
        """,
        [Named("o"), Where("o.id > 3"), Only(("k", "id"))],
        [Named("p"), Computed({"k": "`order_id`", "p.sum": "`sum`"}), Only(("k", "p.sum"))],
        {"on": ["k"], "how": "left", **DAY},
        ("`k`", "`id`", "`p.sum` AS `sum`"),
        None,
    ),
    (
        """
        SELECT p.order_id, o.id + p.s.a AS both FROM o RIGHT JOIN (SELECT * FROM p WHERE ok) p
        ON p.order_id = o.k AND (o.t <= p.t + INTERVAL 5 MINUTES) AND o.t + INTERVAL 1 DAY >= p.t
        WHERE o.id > 3
        """,
        [Only(("k", "id"))],
        [
            *(Where("ok"), Named("p")),
            Computed({"k": "`order_id`", "p.s": "`s`"}),
            Only(("k", "p.s")),
        ],
        {"on": ["k"], "how": "right", **DAY},
        ("`k` AS `order_id`", "`id` + `p.s`.a AS `both`"),
        "`id` > 3",
    ),
    (
        "SELECT coalesce(o.k, p.k) AS k, p.t FROM o FULL JOIN p ON o.k = p.k WHERE p.x > 1",
        [Only(("k",))],
        [Computed({"p.t": "`t`", "p.x": "`x`"}), Only(("k", "p.t", "p.x"))],
        {"on": ["k"], "how": "full"},
        ("`k`", "`p.t` AS `t`"),
        "`p.x` > 1",
    ),
    (
        "SELECT p.k, o.j FROM o INNER JOIN p ON o.k = p.k AND o.j = p.j",
        [Only(("k", "j"))],
        [Only(("k", "j"))],
        {"on": ["k", "j"], "how": "inner"},
        ("`k`", "`j`"),
        None,
    ),
    (
        "SELECT * FROM o LEFT SEMI JOIN p ON o.k = p.k AND o.t BETWEEN p.t AND p.t",
        [],
        [Only(("k",))],
        {"on": ["k"], "how": "semi", **DAY, "between": ("0s", "0s")},
        None,
        None,
    ),
    (
        "SELECT o.id FROM o ANTI JOIN p ON o.k = p.k",
        [Only(("k", "id"))],
        [Only(("k",))],
        {"on": ["k"], "how": "anti"},
        ("`id`",),
        None,
    ),
]


@pytest.mark.parametrize(
    ("query", "probes", "versions", "arguments", "output", "having"), [*JOINS, *ROW_JOINS]
)
def test_join(
    query: str,
    probes: list[Step],
    versions: list[Step],
    arguments: dict[str, object],
    output: tuple[str, ...] | None,
    having: str | None,
) -> None:
    found = plan_query(query)
    assert found.operator == ("join_asof" if "columns" in arguments else "join")
    assert found.second is not None
    assert (list(found.rows.steps), list(found.second.steps)) == (probes, versions)
    assert found.arguments == arguments
    assert (found.output, found.having) == (output, having)


def test_each_input_of_a_join_has_hints() -> None:
    query = "SELECT /*+ STATE_TTL('a'='1d'), RETENTION('orders'='long') */ a.id FROM a"
    found = plan_query(f"{query} JOIN orders o ON a.k = o.k")
    assert found.retention is not None
    assert found.retention.ttl_ms == 86_400_000
    assert found.second_retention is not None
    assert found.second_retention.policy == "long"


def test_a_hint_is_about_the_versions() -> None:
    query = "SELECT /*+ STATE_TTL('r'='1d') */ o.id, r.x FROM o ASOF JOIN rates r"
    found = plan_query(f"{query} ON o.k = r.k AND o.t >= r.t").retention
    assert found is not None
    assert found.ttl_ms == 86_400_000

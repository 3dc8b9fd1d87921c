"""As-of joins in queries: each is the call that its Python form is."""

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
            "version_time": "ts",
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
            "version_time": "t",
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
            "version_time": "t",
        },
        ("`id`", "`r.id` AS `rate_id`", "`r.t` AS `t`"),
        None,
    ),
]


@pytest.mark.parametrize(("query", "probes", "versions", "arguments", "output", "having"), JOINS)
def test_as_of_join(
    query: str,
    probes: list[Step],
    versions: list[Step],
    arguments: dict[str, object],
    output: tuple[str, ...] | None,
    having: str | None,
) -> None:
    found = plan_query(query)
    assert found.operator == "join_asof"
    assert found.versions is not None
    assert (list(found.rows.steps), list(found.versions.steps)) == (probes, versions)
    assert found.arguments == arguments
    assert (found.output, found.having) == (output, having)


def test_a_hint_is_about_the_versions() -> None:
    query = "SELECT /*+ STATE_TTL('r'='1d') */ o.id, r.x FROM o ASOF JOIN rates r"
    found = plan_query(f"{query} ON o.k = r.k AND o.t >= r.t").retention
    assert found is not None
    assert found.ttl_ms == 86_400_000

"""Pipelines whose query names its sources: which fields they are, and the policy of each input."""

import pytest

from idlestate.config.loading import Config, parse
from idlestate.retention.policy import Policy
from tests.config.test_refusals import REFUSED, edited, problems, table

JOINED = (REFUSED / "joined.yaml").read_text()
ONE = "    policy: sessions\n"
SELECT = "SELECT o.id"


def config(*changes: tuple[str, str]) -> Config:
    text = JOINED
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return parse(text.encode(), "f.yaml")


@pytest.mark.parametrize(("change", "expected"), table("joined.txt"))
def test_refused(change: str, expected: list[str]) -> None:
    assert problems(edited(change, JOINED)) == expected


def test_sources_are_the_inputs_of_a_join() -> None:
    found = config(("delay: 1h}", "idle_after: 15m}"), (ONE, f"{ONE}    delay: 2m\n"))
    pipeline = found.pipelines["p"]
    assert (pipeline.kind, pipeline.how, pipeline.key) == ("join", "left", ("id",))
    assert pipeline.source.path == "in/orders"
    assert (pipeline.event_time, pipeline.delay_ms) == ("ordered_at", 600_000)
    assert pipeline.idle_after_ms is None
    right = pipeline.right
    assert right is not None
    assert (right.source.path, right.event_time) == ("in/payments", "paid_at")
    assert (right.delay_ms, right.idle_after_ms) == (120_000, 900_000)
    assert found.warnings == ()


def test_times_that_the_query_names_need_no_fields() -> None:
    interval = "AND p.at BETWEEN o.t - INTERVAL 1 MINUTE AND o.t + INTERVAL 1 HOUR"
    found = config(
        (" event_time: ordered_at,", ""),
        (" event_time: paid_at,", ""),
        ("p.order_id\n", f"p.order_id\n        {interval}\n"),
        (ONE, ""),
    )
    pipeline = found.pipelines["p"]
    assert pipeline.right is not None
    assert (pipeline.event_time, pipeline.right.event_time) == ("t", "at")
    assert pipeline.between == (-60_000, 3_600_000)
    assert found.warnings == ()


def test_sources_are_probes_and_versions() -> None:
    as_of = "payments FOR SYSTEM_TIME AS OF o.ordered_at AS p ON o.id = p.order_id"
    found = config(
        ("payments AS p ON o.id = p.order_id", as_of),
        (SELECT, f"SELECT /*+ STATE_TTL('p'='2d') */ {SELECT[7:]}"),
        (" event_time: paid_at,", ""),
    )
    pipeline = found.pipelines["p"]
    assert pipeline.versions is not None
    assert (pipeline.kind, pipeline.versions.source.path) == ("join_asof", "in/payments")
    assert pipeline.versions.event_time == "ordered_at"
    assert (found.policy_for("p"), found.right_policy_for("p")) == (Policy(ttl="2d"), None)


def test_one_source_has_a_name() -> None:
    found = config(
        (JOINED[JOINED.index("      payments:") : JOINED.index("    query:")], ""),
        (
            JOINED[JOINED.index("      SELECT") : JOINED.index("    policy:")],
            "      SELECT lower(ORDERS.id), count(*) FROM Orders GROUP BY 1\n",
        ),
    )
    pipeline = found.pipelines["p"]
    assert (pipeline.kind, pipeline.source.path, pipeline.delay_ms) == (
        *("retain", "in/orders"),
        600_000,
    )
    assert pipeline.second is None


def test_a_join_of_a_source_with_itself() -> None:
    found = config(
        (JOINED[JOINED.index("      payments:") : JOINED.index("    query:")], ""),
        ("payments AS p", "orders AS p"),
    )
    pipeline = found.pipelines["p"]
    assert pipeline.right is not None
    assert pipeline.right.source == pipeline.source
    assert pipeline.right.event_time == "ordered_at"


LEFT, RIGHT, BOTH = Policy(ttl="3d"), Policy(ttl="1h"), Policy(ttl="5h")


@pytest.mark.parametrize(
    ("hints", "pipeline", "section", "left", "right"),
    [
        ("", ONE, "", LEFT, None),
        ("", ONE, ", policy: short", LEFT, RIGHT),
        ("", "", "", BOTH, None),
        ("", "", ", policy: short", BOTH, RIGHT),
        ("RETENTION('o'='short')", ONE, "", RIGHT, LEFT),
        ("RETENTION('o'='short')", "", "", RIGHT, BOTH),
        ("RETENTION('p'='short')", ONE, ", policy: sessions", LEFT, RIGHT),
        ("STATE_TTL('orders'='1h')", ONE, ", policy: sessions", RIGHT, LEFT),
        ("STATE_TTL('p'='1h')", "", "", BOTH, RIGHT),
        ("STATE_TTL('o'='0s'), STATE_TTL('p'='1h')", ONE, "", Policy(), RIGHT),
        ("STATE_TTL('p'='0s')", ONE, "", LEFT, Policy()),
    ],
)
def test_a_hint_wins_over_the_file_and_its_pipeline_over_selectors(
    hints: str, pipeline: str, section: str, left: Policy, right: Policy | None
) -> None:
    found = config(
        (SELECT, f"SELECT /*+ {hints} */ o.id" if hints else SELECT),
        (ONE, pipeline),
        ("delay: 1h}", f"delay: 1h{section}}}"),
        ("pipelines:", "  both: {ttl: 5h}\nselectors: [{operator: p, policy: both}]\npipelines:"),
    )
    assert (found.policy_for("p"), found.right_policy_for("p")) == (left, right)
    told = [(each.field_path, each.what.split(":")[0]) for each in found.warnings]
    expected = []
    if left.is_unbounded:
        expected = [("pipelines.p", "the hint STATE_TTL in the query of p says never")]
    elif right is not None and right.is_unbounded:
        what = "the hint STATE_TTL in the query of the right input of p says never"
        expected = [("pipelines.p.sources.payments", what)]
    assert told == expected

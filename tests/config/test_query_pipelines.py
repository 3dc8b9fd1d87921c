"""Pipelines with a query: what the file means, and that other files pay nothing for it."""

import subprocess
import sys

import pytest

from idlestate.config.loading import Config, parse
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.retention.windows import hopping
from tests.config.test_refusals import PIPELINE

OWN = "    key: [user]\n    aggregates: {n: count}\n"
POLICY = "    policy: sessions\n"


def config(query: str, without: str = "") -> Config:
    lines = "".join(f"      {line}\n" for line in query.splitlines())
    text = PIPELINE.replace(OWN, f"    query: |\n{lines}").replace(without, "")
    return parse(text.encode(), "f.yaml")


def test_a_query_fills_in_the_fields_that_it_stands_for() -> None:
    found = config("SELECT lower(user) AS u, count(*) AS n\nFROM source\nGROUP BY lower(user)")
    pipeline = found.pipelines["p"]
    assert (pipeline.kind, pipeline.key, pipeline.aggregates) == ("retain", ("u",), {"n": "count"})
    assert found.queries["p"].operator == "retain"
    assert found.warnings == ()


def test_row_number_is_a_deduplication() -> None:
    found = config(
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user ORDER BY ts, a) AS n\n"
        "FROM source) WHERE n = 1",
        "    event_time: event_time\n",
    )
    pipeline = found.pipelines["p"]
    assert (pipeline.kind, pipeline.key, pipeline.keep) == ("deduplicate", ("user",), "first")
    assert (pipeline.event_time, pipeline.order) == ("ts", ("a",))


@pytest.mark.parametrize(
    ("frame", "rows", "range_ms"),
    [
        ("", None, None),
        (" ROWS BETWEEN 9 PRECEDING AND CURRENT ROW", 10, None),
        (" ROWS UNBOUNDED PRECEDING", "unbounded", None),
        (" RANGE INTERVAL 1 HOUR PRECEDING", None, 3_600_000),
    ],
)
def test_an_aggregate_with_over(frame: str, rows: object, range_ms: int | None) -> None:
    over = f"OVER (PARTITION BY user ORDER BY event_time, seq{frame})"
    if range_ms is not None:
        over = over.replace(", seq", "")
    pipeline = config(f"SELECT *, sum(v) {over} AS s FROM source").pipelines["p"]
    assert (pipeline.kind, pipeline.key) == ("over", ("user",))
    assert (pipeline.aggregates, pipeline.rows) == ({"s": "sum(v)"}, rows)
    assert pipeline.range_ms == range_ms


def test_a_window_is_that_of_the_pipeline() -> None:
    query = "SELECT user, count(*) FROM source GROUP BY user, window(event_time, '1 hour', '5m')"
    found = config(query, POLICY)
    assert found.pipelines["p"].window == hopping("1h", "5m")
    assert found.policy_for("p") == hopping("1h", "5m").policy


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("", Policy(idle_min="30m", idle_max="45m")),
        ("/*+ STATE_TTL('source'='90m') */", Policy(ttl="90m")),
        ("/*+ STATE_TTL('s'='0s') */", Policy()),
        ("/*+ RETENTION('s'='now') */", Policy(ttl="1d", time=TimeDomain.PROCESSING)),
    ],
)
def test_a_hint_wins_over_the_policy_of_the_pipeline(hint: str, expected: Policy) -> None:
    without = "    event_time: event_time\n    delay: 10m\n" if "now" in hint else ""
    found = config(f"SELECT {hint} user, count(*) FROM source s GROUP BY user", without)
    assert found.policy_for("p") == expected
    assert [each.what.split(":")[0] for each in found.warnings] == (
        ["the hint STATE_TTL in the query of p says never"] if expected.is_unbounded else []
    )


def test_a_hint_wins_over_selectors() -> None:
    text = PIPELINE.replace(POLICY, "").replace(
        OWN,
        "    query: SELECT /*+ STATE_TTL('source'='2h') */ user, max(a) FROM source GROUP BY 1\n",
    )
    selected = f"{text}selectors: [{{operator: p, policy: sessions}}]\n"
    assert parse(selected.encode()).policy_for("p") == Policy(ttl="2h")


PROGRAM = """
import sys
import idlestate
from idlestate import Policy, retain
from idlestate.config.loading import parse
import idlestate.service.pipeline_changelog
parse({0!r}.encode())
assert "sqlglot" not in sys.modules
parse({1!r}.encode())
assert "sqlglot" in sys.modules
"""


def test_only_queries_load_the_parser() -> None:
    query = "    query: SELECT user, count(*) FROM source GROUP BY user\n"
    program = PROGRAM.format(PIPELINE, PIPELINE.replace(OWN, query))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()

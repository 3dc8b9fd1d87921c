"""Recorded plans of Flink: the hint STATE_TTL of a query says what it says there."""

import pytest

from idlestate.config.sql.planning import plan_query
from idlestate.config.sql.query_error import QueryError
from idlestate.retention.durations import parse_duration
from tests.golden_files import read_traces

pytestmark = pytest.mark.golden
REFUSED = ("hint on unknown alias", "hint with a bad value", "rank")


def test_golden_sql_plan_state_ttl() -> None:
    checked = 0
    for trace in read_traces("sql_plan_state_ttl", "case"):
        if trace["case"].startswith(REFUSED):
            with pytest.raises(QueryError):
                plan_query(trace["sql"])
            continue
        if not trace["stateful_nodes"]:  # Flink bounds the state of OVER by its frame alone
            assert plan_query(trace["sql"]).operator == "over"
            continue
        (node,) = trace["stateful_nodes"]
        plan = plan_query(trace["sql"].replace("min'", "m'"))
        hints = [plan.retention, *([plan.second_retention] if plan.second else [])]
        default_ms = parse_duration(trace["table_exec_state_ttl"].replace(" ", ""))
        for hint, state in zip(hints, node["state"], strict=True):
            ttl_ms = default_ms if hint is None else hint.ttl_ms
            assert ttl_ms == parse_duration(state["ttl"].replace(" ", "").replace("min", "m")), (
                trace["sql"]
            )
        checked += 1
    assert checked == 14

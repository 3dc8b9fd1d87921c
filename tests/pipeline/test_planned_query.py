"""What `sql` passes to operators, without a JVM: arguments that the operator takes."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from idlestate import join_asof, over, retain, sql
from idlestate.errors import RefusedError
from idlestate.pipeline import planned_query


class _Rows:
    """A DataFrame of a name, as far as plans without expressions need one."""

    columns = ("k", "batch_id")

    def alias(self, name: str) -> "_Rows":
        return self

    def select(self, *names: str) -> "_Rows":
        return self


class _Session:
    def table(self, name: str) -> _Rows:
        return _Rows()


CASES: list[tuple[Callable[..., Any], str, dict[str, Any]]] = [
    (retain, "SELECT k, count(*) AS n FROM t GROUP BY k", {"key": ["k"], "rejects": False}),
    (
        over,
        "SELECT *, sum(v) OVER (PARTITION BY k ORDER BY t) AS s FROM t",
        {"key": ["k"], "columns": {"s": "sum(v)"}, "event_time": "t", "delay": "1m"},
    ),
    (
        join_asof,
        "SELECT t.*, r.x FROM t ASOF JOIN r ON t.k = r.k AND t.t >= r.u",
        {"on": ["k"], "columns": ["x"], "event_time": "t", "version_event_time": "u", "delay": "1m"}
        | {"idle_after": "5m", "rejects": True},
    ),
]


@pytest.mark.parametrize(("operator", "query", "expected"), CASES)
def test_an_operator_gets_arguments_that_it_takes(
    operator: Callable[..., Any],
    query: str,
    expected: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed: dict[str, Any] = {}

    def bound(*inputs: Any, **arguments: Any) -> _Rows:
        passed.update(inspect.signature(operator).bind(*inputs, **arguments).arguments)
        return _Rows()

    monkeypatch.setitem(planned_query._OPERATORS, operator.__name__, bound)
    spark: Any = _Session()
    of_join = {"idle_after": "5m", "rejects": True} if operator is join_asof else {}
    sql(spark, query, uid="q", event_time="t", delay="1m", **of_join)
    assert {name: passed[name] for name in expected} == expected


@pytest.mark.parametrize("name", ["rejects", "read_when", "in_order", "idle_after"])
def test_what_an_operator_does_not_take_is_refused(name: str) -> None:
    spark: Any = _Session()
    given: dict[str, Any] = {name: {"rejects": True, "in_order": True}.get(name, "heap")}
    with pytest.raises(RefusedError, match=f"{name} does not apply to this query"):
        sql(spark, CASES[1][1], uid="q", event_time="t", **given)

"""`on_error="reject"`: a record that a function fails on is as if it had not come."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from idlestate import KeyedProcessFunction, Policy
from idlestate.errors import RefusedError
from idlestate.state import ValueStateDescriptor
from idlestate.testing import FunctionHarness
from tests.functions.scripted import OUTPUT, Scripted
from tests.functions.test_function_law import FUNCTIONS, POLICIES, RECORDS, SCHEMA, Record, cut, row
from tests.lengths import law

BEGIN = datetime(2025, 3, 3, tzinfo=UTC)


class Failing(Scripted):
    """Fails at some records, after it has done what they say and more."""

    def do(self, op: str, n: int, ctx: Any) -> Any:
        yield from super().do(op, n, ctx)
        if n < 7:
            return
        count = ctx.state(self.states["count"])
        count.update((count.value() or 0) + 1)
        ctx.state(self.states["list"]).add("more")
        ctx.state(self.states["map"]).put("k1", 1.5)
        ctx.timer("other", ctx.timestamp_ms + 2)
        ctx.register_timer(ctx.timestamp_ms + 9)
        yield self.row("in vain", ctx)
        if n == 7:
            yield ("too few",)
        elif n == 8:
            ctx.state(self.states["list"]).add("\ud800")
        else:
            raise ValueError(op)


def harness(function: Scripted, policy: Policy, **more: Any) -> FunctionHarness:
    return FunctionHarness(
        SCHEMA,
        key="key",
        function=function,
        output=OUTPUT,
        event_time="t",
        columns=["op", "n"],
        delay=timedelta(milliseconds=200),
        policy=policy,
        in_order=True,
        rejects=True,
        **more,
    )


def left(tested: FunctionHarness, batches: list[list[Record]]) -> tuple[Counter[str], Any, int]:
    """Rows, open lives, and how many rows were rejected."""
    rows = [found for batch in batches for found in tested.batch([*map(row, batch)])]
    rows += tested.finish()
    failed = [each for each in rows if each["reason"] is not None]
    kept = [repr([*each.values()][:4]) for each in rows if each["reason"] is None]
    return Counter(kept), sorted(map(repr, tested.lives())), len(failed)


@law(18, FUNCTIONS, POLICIES, RECORDS, st.sets(st.integers(0, 40), max_size=8))
def test_records_that_fail_are_as_if_they_had_not_come(
    like: Scripted, policy: Policy, records: list[Record], cuts: set[int]
) -> None:
    function = Failing()
    function.states = like.states
    # In place of each: a record of another key that does nothing, so that time goes on alike.
    others = [each if each[3] < 7 else ("z", each[1], "nothing", 0) for each in records]
    tested = left(harness(function, policy, on_error="reject"), cut(records, cuts))
    plain = left(harness(function, policy), cut(others, cuts))
    assert tested[:2] == plain[:2]
    assert (tested[2], plain[2]) == (sum(each[3] >= 7 for each in records), 0)


class Wary(KeyedProcessFunction):
    """Fails where its first record says."""

    where = ValueStateDescriptor(name="where", value_type=pa.string())

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.where == "process_element":
            raise KeyError("where")
        ctx.state(self.where).update(row.where)
        ctx.timer("soon", ctx.timestamp_ms + 2_000)
        yield ctx.key, "seen"

    def on_timer(self, name: str | None, ctx: Any) -> Any:
        yield ctx.key, "timer"
        where = ctx.state(self.where)
        if where.value() == "on_timer":
            where.clear()
            raise KeyError(name)

    def on_expire(self, ctx: Any) -> Any:
        yield ctx.key, "expire"
        if ctx.state(self.where).value() == "on_expire":
            ctx.state(self.where).clear()


def wary(**more: Any) -> FunctionHarness:
    arguments = {"on_error": "reject", "rejects": True}
    return FunctionHarness(
        {"key": pa.string(), "t": pa.timestamp("us", "UTC"), "where": pa.string()},
        key="key",
        function=Wary(),
        output="key string, what string",
        event_time="t",
        policy=Policy(ttl="10s"),
        **{**arguments, **more},
    )


@pytest.mark.parametrize(
    ("where", "done", "second", "said"),
    [
        ("process_element", [], 0, "raised KeyError: 'where' ("),
        ("on_timer", ["seen", "expire"], 2, "raised KeyError: 'soon' ("),
        ("on_expire", ["seen", "timer"], 10, "changed a state or timer, which on_expire must"),
    ],
)
def test_a_reject_row_says_what_failed_where_and_the_rest_of_the_life_goes_on(
    where: str, done: list[str], second: int, said: str
) -> None:
    tested = wary()
    rows = tested.batch([{"key": "k", "t": BEGIN, "where": where}])
    rows += tested.batch([{"key": "l", "t": BEGIN + timedelta(seconds=20), "where": ""}])
    rows += tested.batch([])
    assert [each["what"] for each in rows if each["key"] == "k"] == done
    (failed,) = [each for each in rows if each["reason"] is not None]
    assert failed["reason"] == "function_error"
    told = json.loads(failed["rejected"])
    assert told.pop("error").startswith(said)
    given = {"key": "k", "t": "2025-03-03T00:00:00.000Z", "where": where}
    assert told == {
        "operator": "harness",
        "method": f"Wary.{where}",
        "key": "k",
        "time": f"2025-03-03T00:00:{second:02}.000+00:00",
        "row": given if where == "process_element" else None,
    }
    assert tested._record.rows.function_error == 1


def test_on_error_is_refused_where_rejected_records_would_be_lost() -> None:
    with pytest.raises(RefusedError, match="on_error 'reject' needs rejects=True"):
        wary(rejects=False)
    with pytest.raises(RefusedError, match="on_error 'skip' is not valid; pass 'stop' or 'reject'"):
        wary(on_error="skip")

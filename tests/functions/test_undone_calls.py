"""What a call that fails leaves of its key: nothing. Each thing that is undone has its test."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from idlestate import KeyedProcessFunction, Policy
from idlestate.functions.declared_states import OpenFunction
from idlestate.functions.key_loop import KeyLoop
from idlestate.functions.rejected_calls import RejectedCalls
from idlestate.functions.visited_keys import KeysToVisit, Visited
from idlestate.state import ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from idlestate.testing import FunctionHarness

BEGIN = datetime(2025, 3, 3, tzinfo=UTC)
TOTAL = pa.struct([("n", pa.int64())])
OUTPUT = pa.schema([("key", pa.string()), ("what", pa.string())])


class Row(NamedTuple):
    what: str

    _method, _columns = "process_element", ("what",)


def in_place(total: dict[str, int], added: dict[str, int]) -> dict[str, int]:
    total["n"] += added["n"]
    return total


class Rows(KeyedProcessFunction):
    """Keeps what its records say, and fails at some of them after that."""

    seen = ListStateDescriptor(name="seen", value_type=pa.string())
    total = ReducingStateDescriptor(name="total", value_type=TOTAL, reduce=in_place)

    def process_element(self, row: Any, ctx: Any) -> Any:
        ctx.state(self.seen).add(row.what)
        ctx.state(self.total).add({"n": 1})
        yield ctx.key, row.what
        if row.what == "fail":
            raise ValueError(row.what)

    def on_expire(self, ctx: Any) -> Any:
        yield ctx.key, "expire"


def visited(policy: Policy, records: list[tuple[int, str]]) -> Visited:
    """What becomes of one key without a life."""
    opened = OpenFunction(Rows())
    cells = list(opened.cells.values())
    checks = RejectedCalls("op", OUTPUT)
    loop = KeyLoop("op", opened.function, opened.context, cells, policy, checks)
    given = KeysToVisit(
        ["k"],
        [len(records)],
        iter([Row(what) for _, what in records]),
        iter([t_ms for t_ms, _ in records]),
        None,
        [None],
        [[None] for _ in cells],
        [None],
    )
    loop.visit(given, None)
    return loop.visited


@pytest.mark.parametrize(
    ("policy", "records"),
    [
        pytest.param(Policy(ttl_ms=10), [(0, "fail")], id="first record"),
        pytest.param(Policy(ttl_ms=10), [(0, "a"), (5, "fail")], id="open life"),
        pytest.param(
            Policy(ttl_ms=10), [(0, "a"), (5, "fail"), (12, "b")], id="no access: life ends at 10"
        ),
        # Of min 20 and max 50 the life is armed at 0 until 50, and re-armed at 35, not at 8.
        pytest.param(
            Policy(idle_min_ms=20, idle_max_ms=50, ttl_ms=30, min_gap_ms=0),
            [(0, "a"), (5, "fail"), (8, "b"), (33, "c"), (35, "fail"), (36, "d")],
            id="times of the life",
        ),
        pytest.param(Policy(ttl_ms=50), [(5, "a"), (9, "fail"), (7, "b")], id="times running back"),
    ],
)
def test_a_failed_record_leaves_all_as_it_was(
    policy: Policy, records: list[tuple[int, str]]
) -> None:
    found = visited(policy, records)
    assert len(found.failed) == sum(what == "fail" for _, what in records)
    plain = visited(policy, [each for each in records if each[1] != "fail"])
    assert replace(found, failed=[]) == plain


def test_a_failed_record_after_the_end_of_a_life_begins_none() -> None:
    found = visited(Policy(ttl_ms=10), [(0, "a"), (20, "fail")])
    assert [t_ms for _, t_ms, _ in found.births] == [0]
    assert found.gone == found.ends
    assert [at_ms for _, at_ms, _ in found.gone] == [10]


def test_a_key_returns_with_the_record_after_a_failed_one() -> None:
    found = visited(Policy(ttl_ms=10), [(0, "a"), (20, "fail"), (25, "b")])
    assert [(t_ms, before_ms) for _, t_ms, before_ms in found.births] == [(0, None), (25, 10)]
    assert found.gone == []


def harness(function: KeyedProcessFunction, **more: Any) -> FunctionHarness:
    schema = {"key": pa.string(), "t": pa.timestamp("us", "UTC"), "what": pa.string()}
    return FunctionHarness(
        {**schema, "is_read": pa.bool_()},
        key="key",
        function=function,
        output="key string, what string",
        event_time="t",
        policy=Policy(ttl="10s"),
        **{"on_error": "reject", "rejects": True, **more},
    )


def record(key: str, second: int, what: str = "", *, is_read: bool = False) -> dict[str, Any]:
    t = BEGIN + timedelta(seconds=second)
    return {"key": key, "t": t, "what": what, "is_read": is_read}


def told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(each["rejected"]) for each in rows if each["reason"] is not None]


def test_created_keys_are_counted_without_rejected_records() -> None:
    tested = harness(Rows())
    tested.batch([record("k", 0, "fail"), record("l", 0, "a")])
    assert tested._record.tally.created == 1


class TimersAlone(KeyedProcessFunction):
    """Keeps timers alone; `soon` fails after it has set or deleted another one."""

    def __init__(self, *, sets: bool) -> None:
        self.sets = sets

    def process_element(self, row: Any, ctx: Any) -> None:
        ctx.timer("soon", ctx.timestamp_ms + 1_000)
        if not self.sets:
            ctx.timer("other", ctx.timestamp_ms + 60_000)

    def on_timer(self, name: str | None, ctx: Any) -> None:
        if self.sets:
            ctx.timer("other", ctx.timestamp_ms + 60_000)
        else:
            ctx.delete_timer("other")
        raise ValueError(name)


@pytest.mark.parametrize(("sets", "left"), [(True, []), (False, ["other"])])
def test_timers_of_a_failed_timer_are_as_before_it(sets: bool, left: list[str]) -> None:
    tested = harness(TimersAlone(sets=sets))
    tested.batch([record("k", 0)])
    tested.batch([record("l", 5)])
    (failed,) = told(tested.batch([]))
    assert failed["method"] == "TimersAlone.on_timer"
    timers = [life["timers"] for life in tested.lives() if life["key"] == "k"]
    assert [each["name"] for life in timers for each in life] == left


class WrongRows(KeyedProcessFunction):
    """Yields a row of too few values in one of its methods."""

    where = ValueStateDescriptor(name="where", value_type=pa.string())

    def process_element(self, row: Any, ctx: Any) -> Any:
        if not row.is_read:
            ctx.state(self.where).update(row.what)
            ctx.timer("soon", ctx.timestamp_ms + 2_000)
        yield self.row("process_element" if not row.is_read else "read", ctx)

    def on_timer(self, name: str | None, ctx: Any) -> Any:
        yield self.row("on_timer", ctx)

    def on_expire(self, ctx: Any) -> Any:
        yield self.row("on_expire", ctx)

    def row(self, where: str, ctx: Any) -> Any:
        return (ctx.key,) if ctx.state(self.where).value() == where else (ctx.key, where)


@pytest.mark.parametrize(
    ("where", "method"),
    [
        ("process_element", "process_element"),
        ("read", "process_element"),
        ("on_timer", "on_timer"),
        ("on_expire", "on_expire"),
    ],
)
def test_a_row_that_does_not_fit_is_rejected_in_each_method(where: str, method: str) -> None:
    tested = harness(WrongRows(), read_when="is_read")
    # The read comes first to a key that is there.
    rows = tested.batch([record("k", 0, where), record("k", 1, is_read=True)])
    rows += tested.batch([record("l", 30)])
    rows += tested.batch([])
    failed = [each for each in told(rows) if each["key"] == "k"]
    assert failed[0]["method"] == f"WrongRows.{method}"
    assert failed[0]["error"].startswith("yielded ('k',) of 1 values")
    assert len(failed) == 1


class FailsTwice(KeyedProcessFunction):
    """Fails at the end of a life, and at the record after it."""

    seen = ValueStateDescriptor(name="seen", value_type=pa.string())

    def process_element(self, row: Any, ctx: Any) -> None:
        if row.what == "fail":
            raise ValueError("record")
        ctx.state(self.seen).update(row.what)

    def on_expire(self, ctx: Any) -> Any:
        raise ValueError("end")


def test_a_reject_row_names_the_method_that_failed_after_another_one() -> None:
    rows = harness(FailsTwice()).batch([record("k", 0, "a"), record("k", 20, "fail")])
    assert [each["method"] for each in told(rows)] == [
        "FailsTwice.on_expire",
        "FailsTwice.process_element",
    ]


class Defaults(KeyedProcessFunction):
    """Counts in a struct that begins with a default."""

    total = ValueStateDescriptor(name="total", value_type=TOTAL, default={"n": 0})

    def process_element(self, row: Any, ctx: Any) -> Any:
        state = ctx.state(self.total)
        total = state.value()
        total["n"] += 1
        if row.what == "fail":
            raise ValueError(row.what)
        state.update(total)
        yield ctx.key, str(total["n"])


@pytest.mark.parametrize("what", ["", "fail"])
def test_a_default_that_is_changed_in_place_is_that_of_one_key_alone(what: str) -> None:
    tested = harness(Defaults())
    rows = tested.batch([record("a", 0, what), record("b", 0), record("c", 0)])
    rows += tested.batch([record("d", 1)])
    found = {each["key"]: each["what"] for each in rows if each["reason"] is None}
    assert found == dict.fromkeys(["b", "c", "d"] if what else ["a", "b", "c", "d"], "1")


class InPlace(KeyedProcessFunction):
    """Changes what it reads, without an update."""

    total = Rows.total

    def process_element(self, row: Any, ctx: Any) -> None:
        total = ctx.state(self.total)
        if row.what == "look":
            total.get()["n"] = 99
        else:
            total.add({"n": 1})


@pytest.mark.parametrize("is_read", [False, True])
def test_a_reduced_value_that_is_changed_in_place_is_not_that_of_the_state(is_read: bool) -> None:
    tested = harness(InPlace(), read_when="is_read")
    rows = tested.batch([record("k", 0), record("k", 1, "look", is_read=is_read)])
    assert told(rows) == []
    assert [life["total"] for life in tested.lives()] == [{"n": 1}]

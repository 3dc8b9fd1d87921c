"""What a batched function gets wrong ends in one error that says what, for which key and when."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from idlestate import BatchedProcessFunction, Policy
from idlestate.errors import RefusedError
from idlestate.state import ListStateDescriptor, ValueStateDescriptor
from idlestate.testing import FunctionHarness

BEGIN = datetime(2025, 3, 3, tzinfo=UTC)
SCHEMA = {"key": pa.string(), "t": pa.timestamp("us", "UTC"), "n": pa.int64(), "read": pa.bool_()}
RECORDS = [
    {"key": key, "t": BEGIN + timedelta(seconds=at), "n": at, "read": False}
    for at, key in enumerate("abcab")
]


class Counting(BatchedProcessFunction):
    count = ValueStateDescriptor(name="count", value_type=pa.int64(), default=0)

    def process_batch(self, rows: Any, ctx: Any) -> Any:
        count = ctx.state(self.count)
        self.misuse(rows, ctx, count)
        count.update(count.value() + 1)
        return {"key": ctx.keys, "n": count.value()}

    def misuse(self, rows: Any, ctx: Any, count: Any) -> None:
        pass


def harness(function: BatchedProcessFunction, **arguments: Any) -> FunctionHarness:
    return FunctionHarness(
        SCHEMA,
        key="key",
        function=function,
        output="key string, n bigint",
        event_time="t",
        policy=Policy(ttl="1h"),
        **arguments,
    )


def misusing(misuse: Any) -> Counting:
    function = Counting()
    function.misuse = misuse  # type: ignore[method-assign]
    return function


def change(values: Any) -> None:
    values[0] = 7


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda _, __, count: count.update(np.arange(9)), "state 'count' has 9 values for 1 keys"),
        (lambda _, __, count: count.update(np.array([0.5])), "state 'count' is of type int64"),
        (lambda _, __, count: count.update([0.5]), "0.5 would become 0"),
        (lambda _, __, count: count.update(np.array([True])), "they are of type bool"),
        (lambda _, __, count: count.update(3), "state 'count' is int; pass an Arrow or numpy"),
        (
            lambda _, __, count: count.clear(where=np.array([1])),
            "where is of type bool, its values",
        ),
        (lambda _, ctx, __: ctx.timer("x", np.array([1, 2])), "time of a timer has 2 values"),
        (lambda _, ctx, __: ctx.timer("x", [1.5]), "the time of a timer is of type int64"),
        (lambda _, ctx, __: ctx.timer("", np.array([1])), "timer name '' is not valid"),
        (lambda rows, ctx, _: ctx.timer("x", rows.t), "they are of type timestamp[us, tz=UTC]"),
        (
            lambda _, ctx, __: ctx.register_timer(np.array(["2025-03-03"], "M8[us]")),
            "they are of type timestamp[us]",
        ),
        (lambda rows, _, count: count.update(rows.key), "they are of type string"),
        (lambda _, __, count: change(count.value()), "read-only"),
        (lambda _, ctx, __: change(ctx.timestamps_ms), "read-only"),
        (lambda rows, _, __: change(rows.n.to_numpy()), "read-only"),
    ],
)
def test_misuse_of_a_call_names_its_first_key_and_time(misuse: Any, message: str) -> None:
    with pytest.raises(RefusedError) as raised:
        harness(misusing(misuse)).batch(RECORDS)
    text = str(raised.value)
    assert message in text
    assert "Counting.process_batch raised" in text
    assert "for key 'a' at 2025-03-03T00:00:00.000+00:00" in text


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"key": ["a"]}, "the output has columns key; output names key, n"),
        ({"key": ["a"], "n": [1, 2]}, "the output columns differ in length: key has 1, n has 2"),
        ({"key": ["a"], "n": ["x"]}, "output column n is of type int64"),
        ({"key": ["a", "a"], "n": [None, 1.5]}, "output column n is of type int64"),
        ({"key": np.array([7]), "n": [1]}, "output column key is of type string"),
        ({"key": ["a"], "n": pa.array(["7"])}, "output column n is of type int64"),
        (5, "the output is int; return columns by name"),
    ],
)
def test_output_that_does_not_fit_is_told(found: Any, message: str) -> None:
    class Yielding(BatchedProcessFunction):
        def process_batch(self, rows: Any, ctx: Any) -> Any:
            return found

    with pytest.raises(RefusedError, match=message) as raised:
        harness(Yielding()).batch(RECORDS)
    assert ".py" not in str(raised.value)  # it names no file of ours


def test_the_key_and_the_time_of_the_record_are_found_where_a_call_fails() -> None:
    def fails(rows: Any, _: Any, __: Any) -> None:
        if 4 in rows.n.to_pylist():
            raise ValueError("four")

    with pytest.raises(RefusedError) as raised:
        harness(misusing(fails)).batch(RECORDS)
    assert "Counting.process_batch raised ValueError: four" in str(raised.value)
    assert "for key 'b' at 2025-03-03T00:00:04.000+00:00" in str(raised.value)
    rejecting = harness(misusing(fails), rejects=True, on_error="reject")
    rows = rejecting.batch(RECORDS)
    assert sorted((r["key"], r["n"]) for r in rows if not r["reason"]) == [
        ("a", 1), ("a", 2), ("b", 1), ("c", 1),
    ]  # fmt: skip
    (rejected,) = [json.loads(row["rejected"]) for row in rows if row["reason"]]
    assert (rejected["method"], rejected["key"]) == ("Counting.process_batch", "b")


def test_a_call_that_fails_with_many_keys_only_stops_the_batch_or_is_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(rows: Any, _: Any, __: Any) -> None:
        if len(rows.n) > 1:
            raise ValueError("many")

    with pytest.raises(RefusedError, match=r"a call with 3 keys\) raised ValueError: many"):
        harness(misusing(fails)).batch(RECORDS)
    assert not caplog.records
    found = harness(misusing(fails), rejects=True, on_error="reject").batch(RECORDS)
    wanted = harness(misusing(lambda *_: None), rejects=True).batch(RECORDS)
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    (said,) = caplog.messages
    assert said.startswith("operator 'harness': ")
    assert "process_batch (a call with 3 keys) raised ValueError: many" in said
    assert said.endswith("with one key per call, which did not fail and counts")


def test_a_record_that_only_reads_changes_nothing() -> None:
    tested = harness(Counting(), read_when="read")
    with pytest.raises(RefusedError, match=r"changed a state or timer, which a record that only"):
        tested.batch([{**RECORDS[0], "read": True}])


def test_forms_that_do_not_fit_together_are_refused() -> None:
    class NoTimer(Counting):
        def process_element(self, row: Any, ctx: Any) -> Any: ...

        def on_timers(self, name: str | None, ctx: Any) -> Any: ...

    class Lists(Counting):
        pages = ListStateDescriptor(name="pages", value_type=pa.string())

    class OneKeyTimer(Counting):
        def on_timer(self, name: str | None, ctx: Any) -> Any: ...

    class Nothing(BatchedProcessFunction):
        pass

    for function, message in (
        (NoTimer(), "NoTimer has on_timers but no on_timer; define both"),
        (Lists(), "Lists: state 'pages' is a list state, batched functions have value states"),
        (OneKeyTimer(), "on_timer but no process_element; define on_timers instead"),
        (Nothing(), "'harness': .*Nothing has no process_batch"),
    ):
        with pytest.raises(RefusedError, match=message):
            harness(function)

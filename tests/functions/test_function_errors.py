"""What a function does wrong is said with operator, method, key and time; state is as before."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from idlestate import KeyedProcessFunction, Policy
from idlestate.errors import RefusedError
from idlestate.state import (
    ListStateDescriptor,
    StateTtlConfig,
    StateVisibility,
    ValueStateDescriptor,
)
from idlestate.testing import FunctionHarness

SCHEMA = {
    "key": pa.string(),
    "t": pa.timestamp("us", "UTC"),
    "n": pa.int64(),
    "is_read": pa.bool_(),
}
BEGIN = datetime(2025, 3, 3, tzinfo=UTC)
COUNT = ValueStateDescriptor(name="count", value_type=pa.int16(), default=0)
NOTE = ValueStateDescriptor(name="note", value_type=pa.string())


def row(n: int, second: int = 0, key: str = "k", *, is_read: bool = False) -> dict[str, Any]:
    return {"key": key, "t": BEGIN + timedelta(seconds=second), "n": n, "is_read": is_read}


def harness(function: Any, **more: Any) -> FunctionHarness:
    arguments = {
        "key": "key",
        "function": function,
        "output": "key string, n int",
        "event_time": "t",
        "policy": Policy(ttl="10s"),
        "in_order": False,
    }
    return FunctionHarness(SCHEMA, **{**arguments, **more})


class Calls(KeyedProcessFunction):
    """Does what it is told at its first record of a batch, after counting."""

    count, note = COUNT, NOTE

    def __init__(self, what: Any) -> None:
        self.what = what

    def process_element(self, row: Any, ctx: Any) -> Any:
        count = ctx.state(self.count)
        if row.n:
            return self.what(ctx)
        count.update(count.value() + 1)
        return [(ctx.key, count.value())]


def forever(ctx: Any) -> None:
    ctx.timer("again", ctx.timestamp_ms)


def interrupted(ctx: Any) -> None:
    raise KeyboardInterrupt


class Restless(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        ctx.timer("again", ctx.timestamp_ms)

    def on_timer(self, name: str | None, ctx: Any) -> Any:
        ctx.timer("again", ctx.timestamp_ms)


class Greedy(KeyedProcessFunction):
    count = COUNT

    def process_element(self, row: Any, ctx: Any) -> Any:
        ctx.state(self.count).update(1)

    def on_expire(self, ctx: Any) -> Any:
        ctx.state(self.count).update(2)


CASES = {
    "raises": (lambda ctx: 1 // 0, "raised ZeroDivisionError"),
    "exits": (lambda ctx: sys.exit(3), "raised SystemExit"),
    "is interrupted": (interrupted, "raised KeyboardInterrupt"),
    "runs out of memory": (lambda ctx: bytearray(1 << 60), "raised MemoryError"),
    "no tuple": (lambda ctx: ["text"], "'text', which is not a tuple"),
    "too few values": (lambda ctx: [("k",)], "of 1 values; output has 2: key, n"),
    "another type": (lambda ctx: [("k", "x")], "'x' for column n of type int32"),
    "too large": (lambda ctx: [("k", 1 << 40)], "for column n of type int32"),
    "not iterable": (lambda ctx: 7, "raised TypeError"),
    "a state of another type": (lambda ctx: ctx.state(COUNT).update("x"), "of type int16, 'x'"),
    "a fraction of a whole number": (
        lambda ctx: [("k", 1), ("k", 1.5)],
        "yielded 1.5 for column n of type int32: 1.5 would become 1",
    ),
    "a fraction for a whole state": (
        lambda ctx: ctx.state(COUNT).update(1.5),
        "of type int16, 1.5 does not fit: 1.5 would become 1",
    ),
    "a state too large": (lambda ctx: ctx.state(COUNT).update(40_000), "of type int16, 40000"),
    "a state not declared": (
        lambda ctx: ctx.state(ValueStateDescriptor(name="other", value_type=pa.int64())),
        "state 'other' is not declared",
    ),
    "a timer at no time": (lambda ctx: ctx.timer("t", 1.5), "timer at 1.5 is not valid"),
    "a text that cannot be stored": (
        lambda ctx: ctx.state(NOTE).update("\ud800"),
        r"state 'note' is of type string, '\ud800' does not fit",
    ),
    "a timer's name that cannot be stored": (
        lambda ctx: ctx.timer("\ud800", 1),
        r"timer name '\ud800' is not valid",
    ),
    "a timer without a name": (lambda ctx: ctx.timer("", 1), "timer name '' is not valid"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_call_names_operator_method_key_and_time(case: str) -> None:
    what, text = CASES[case]
    tested = harness(Calls(what))
    assert tested.batch([row(0)]) == [{"key": "k", "n": 1}]
    before = tested.lives()
    with pytest.raises(RefusedError) as raised:
        tested.batch([row(0, 1), row(1, 2), row(0, 3, "other")])
    named = ("'harness'", "Calls.process_element", "'k'", "2025-03-03T00:00:02.000+00:00", text)
    for part in named:
        assert part in str(raised.value), part
    assert tested.lives() == before
    assert tested.batch([row(0, 1)]) == [{"key": "k", "n": 2}]


def test_timers_that_are_set_at_their_own_time_for_ever_are_an_error() -> None:
    tested = harness(Restless())
    tested.batch([row(0)])
    with pytest.raises(RefusedError, match="set timers at or before their own time"):
        tested.batch([row(0, 5)])


def test_on_expire_must_not_change_states() -> None:
    tested = harness(Greedy())
    tested.batch([row(0)])
    with pytest.raises(RefusedError, match="on_expire changed a state or timer"):
        tested.batch([row(0, 100)])


def test_a_record_that_reads_must_not_change_states_and_creates_nothing() -> None:
    tested = harness(Calls(lambda ctx: [(ctx.key, ctx.state(COUNT).value())]), read_when="is_read")
    assert tested.batch([row(1, is_read=True)]) == [{"key": "k", "n": 0}]
    assert tested.lives() == []
    tested.batch([row(0, 1), row(1, 2, is_read=True)])
    with pytest.raises(RefusedError, match="which a record that only reads"):
        tested.batch([row(0, 3, is_read=True)])


def test_what_a_state_cannot_be_is_refused_before_anything_runs() -> None:
    class Nested(KeyedProcessFunction):
        pages = ListStateDescriptor(name="pages", value_type=pa.list_(pa.int64()))

    class Lingering(KeyedProcessFunction):
        count = ValueStateDescriptor(
            name="count",
            value_type=pa.int64(),
            ttl=StateTtlConfig(
                ttl="1h", visibility=StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP
            ),
        )

    class Twice(KeyedProcessFunction):
        first = ValueStateDescriptor(name="count", value_type=pa.int64())
        second = ValueStateDescriptor(name="count", value_type=pa.string())

    for function, text in (
        (Nested(), "state 'pages' is of type list"),
        (Lingering(), "NEVER_RETURN_EXPIRED"),
        (Twice(), "state 'count' is declared twice"),
        (Nested, "pass an object of a class"),
        (len, "pass an object of a class"),
    ):
        with pytest.raises(RefusedError, match=text):
            harness(function)


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (pa.int16(), 40_000),
        (pa.int64(), "none"),
        (pa.int64(), True),
        (pa.int64(), 0.5),
        (pa.string(), 0),
        (pa.struct([("n", pa.int64())]), {"m": 0}),
    ],
)
def test_a_default_that_does_not_fit_its_state_is_refused(kind: pa.DataType, default: Any) -> None:
    def declare() -> None:
        class Unfit(KeyedProcessFunction):
            last = ValueStateDescriptor(name="last", value_type=kind, default=default)

        harness(Unfit())

    with pytest.raises(RefusedError) as caught:
        declare()
    told = str(caught.value)
    assert f"state 'last' is of type {kind}, {default!r} does not fit: " in told
    assert told.endswith("; pass a default of this type")


def test_a_default_of_the_type_is_taken() -> None:
    class Fitting(Calls):
        last = ValueStateDescriptor(name="last", value_type=pa.int16(), default=2**15 - 1)
        mean = ValueStateDescriptor(name="mean", value_type=pa.float64(), default=0)
        no_default = ValueStateDescriptor(name="text", value_type=pa.string(), default=None)

    harness(Fitting(None))


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("", "output '' is not valid"),
        ("key", "output column 'key' is not valid"),
        ("key string, n array<int>", "output column 'n array<int>' is not valid"),
        ("key string, n decimal(39, 2)", "is not valid"),
        ("n int, n string", "column n twice"),
    ],
)
def test_an_output_that_is_not_valid_is_refused(output: str, text: str) -> None:
    with pytest.raises(RefusedError, match=text.replace("(", r"\(").replace(")", r"\)")):
        harness(Calls(None), output=output)


def test_columns_with_dots_and_decimals_come_out() -> None:
    tested = harness(
        Calls(lambda ctx: [(ctx.key, 5)]), output="`a.b` string, amount decimal(10, 2)"
    )
    (found,) = tested.batch([row(1)])
    assert found["a.b"] == "k"
    assert str(found["amount"]) == "5.00"

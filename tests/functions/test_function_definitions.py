"""What `process` and `co_process` refuse before a record comes, which columns functions see, and
what becomes of lives when a function changes.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from idlestate import (
    BatchedCoProcessFunction,
    BatchedProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    Policy,
)
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.definition_change import compare_definitions
from idlestate.backends.shards.packet_codec import decode_packet
from idlestate.errors import RefusedError
from idlestate.pipeline import retain_harness
from idlestate.retention.policy import TimeDomain
from idlestate.state import StateTtlConfig, ValueStateDescriptor
from idlestate.testing import CoFunctionHarness, FunctionHarness

BEGIN = datetime(2025, 3, 3, tzinfo=UTC)
SCHEMA = {"k": pa.string(), "t": pa.timestamp("us", "UTC"), "n": pa.int64()}
ROW = {"k": "a", "t": BEGIN, "n": 1}


class Echo(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield ctx.key, repr(tuple(row))


class EchoBatch(BatchedProcessFunction):
    def process_batch(self, rows: Any, ctx: Any) -> Any:
        of_rows = zip(*(column.to_pylist() for column in rows), strict=True)
        return {"k": ctx.keys, "what": [repr(each) for each in of_rows] or ["()"] * len(ctx.keys)}


class EchoTwo(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield ctx.key, repr(tuple(row))

    process_element2 = process_element1


class EchoTwoBatch(BatchedCoProcessFunction):
    process_batch1 = process_batch2 = EchoBatch.process_batch


def harness(function: KeyedProcessFunction, **more: Any) -> FunctionHarness:
    return FunctionHarness(
        more.pop("schema", SCHEMA),
        key="k",
        event_time="t",
        output="k string, what string",
        function=function,
        policy=Policy(ttl="1h"),
        **more,
    )


def two_inputs(function: Any, **more: Any) -> CoFunctionHarness:
    return CoFunctionHarness(
        more.pop("left", SCHEMA),
        more.pop("right", SCHEMA),
        key="k",
        event_time="t",
        output="k string, what string",
        function=function,
        policy=Policy(ttl="1h"),
        **more,
    )


class Misspelt(KeyedProcessFunction):
    def process_elements(self, row: Any, ctx: Any) -> Any: ...


class OneMethod(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any: ...


class BothBases(EchoTwo, EchoBatch):
    pass


class Locked(Echo):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class Closed(Echo):
    def open(self, ctx: Any) -> Any:
        raise OSError("no model")


class Leaving(Echo):
    def open(self, ctx: Any) -> Any:
        raise SystemExit(3)


class Twice(Echo):
    one = ValueStateDescriptor(name="n", value_type=pa.int64())
    two = ValueStateDescriptor(name="n", value_type=pa.string())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: harness(Misspelt()), "Misspelt has no process_element; define it"),
        (lambda: two_inputs(OneMethod()), "OneMethod has no process_element2; define it"),
        (lambda: two_inputs(BothBases()), "BothBases is .*; derive it from BatchedCoProcessFuncti"),
        (lambda: harness(Locked()), "Locked cannot be copied: .*lock.*; create in open what tasks"),
        (lambda: harness(Closed()), r"Closed.open raised OSError: no model \(.*definitions.py, li"),
        (lambda: harness(Leaving()), r"Leaving.open raised SystemExit: 3 \(.*; correct it"),
        (lambda: harness(Twice()), "state 'n' is declared twice; rename one of them"),
        (lambda: harness(Echo(), schema=SCHEMA, rejects=True, columns="m"), "columns: m is not fo"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(RefusedError, match=f"^operator 'harness': {said}"):
        make()


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("k string, K int", "output has column k twice"),
        ("k string, Reason string", "output column Reason is added by rejects=True; rename it"),
    ],
)
def test_names_that_differ_in_case_alone_are_refused(output: str, said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        FunctionHarness(
            SCHEMA, key="k", function=Echo(), output=output, event_time="t", policy=Policy(),
            rejects=True,
        )  # fmt: skip


ODD = ("a.b", "with space", "`quoted`", "é", "_idlestate_x", "class", "__input", "count", "_method")


@pytest.mark.parametrize("function", [Echo(), EchoBatch()])
def test_columns_may_have_any_name_and_are_in_the_order_asked_for(
    function: KeyedProcessFunction,
) -> None:
    schema = {**SCHEMA, **dict.fromkeys(ODD, pa.int64())}
    row = {**ROW, **{name: at for at, name in enumerate(ODD)}}
    for columns in (ODD, ODD[::-1], ["N", "k", "a.b"], []):
        found = harness(function, schema=schema, columns=columns).batch([row])
        values = {**row, "N": 1}
        assert found == [{"k": "a", "what": repr(tuple(values[name] for name in columns))}]


@pytest.mark.parametrize("function", [EchoTwo(), EchoTwoBatch()])
def test_columns_of_two_inputs_may_be_none_and_in_another_order_than_the_schema(
    function: KeyedCoProcessFunction,
) -> None:
    right = dict(reversed(SCHEMA.items()))
    tested = two_inputs(function, right=right, columns=[], right_columns=["n", "k"])
    found = tested.batch([("right", ROW), ("left", ROW)]) + tested.finish()
    assert [row["what"] for row in found] == ["()", "(1, 'a')"]


@pytest.mark.parametrize("make", [harness, two_inputs])
def test_only_the_columns_that_a_function_sees_travel(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    packets: list[bytes] = []
    real = retain_harness.advance

    def advance(table: Any, record: Any, runs: Any, sent: list[bytes], *more: Any) -> Any:
        packets.extend(sent)
        return real(table, record, runs, sent, *more)

    monkeypatch.setattr(retain_harness, "advance", advance)
    schema = {**SCHEMA, "unused": pa.string()}
    row = {**ROW, "unused": "0123456789abcdef"}
    if make is harness:
        tested = harness(Echo(), schema=schema, columns="n", rejects=True)
        tested.batch([row])
        carried = ["n"]
    else:
        tested = two_inputs(
            EchoTwo(), left=schema, right=schema, columns="n", right_columns="n", rejects=True
        )
        tested.batch([("left", row), ("right", row)])
        carried = ["__input", "n"]
    spec = tested._spec
    steps = [decode_packet(each, spec.table) for each in packets]
    assert sum(len(each.t_ms) for each in steps) == len(carried)
    assert {len(each.carried) for each in steps} == {len(carried)}
    assert [name for name, _ in spec.table.kind.payload] == carried
    assert not any(b"0123456789abcdef" in each for each in packets)


class Unnamed(BatchedProcessFunction):
    """Treats an empty name as that of a timer."""

    def process_batch(self, rows: Any, ctx: Any) -> Any:
        ctx.register_timer(ctx.timestamps_ms + 5)
        ctx.delete_timer("")
        return {"k": ctx.keys, "what": np.array([str(ctx.timer_at("").to_pylist())])}


def test_a_plain_timer_is_not_that_of_an_empty_name() -> None:
    tested = harness(Unnamed(), in_order=False)
    assert tested.batch([ROW]) == [{"k": "a", "what": "[None]"}]
    (life,) = tested.lives()
    assert [each["name"] for each in life["timers"]] == [None]


class Plain(KeyedProcessFunction):
    plain = ValueStateDescriptor(name="plain", value_type=pa.int64())

    def process_element(self, row: Any, ctx: Any) -> Any:
        ctx.state(self.plain).update(row.n)


TIMED = ValueStateDescriptor(name="timed", value_type=pa.int64(), ttl=StateTtlConfig(ttl="10m"))


class Timed(KeyedProcessFunction):
    timed = TIMED

    def process_element(self, row: Any, ctx: Any) -> Any:
        ctx.state(TIMED).update(row.n)

    def on_expire(self, ctx: Any) -> Any:
        yield ctx.key, "expire"


class TimedBatch(BatchedProcessFunction):
    timed = TIMED

    def process_batch(self, rows: Any, ctx: Any) -> Any:
        ctx.state(TIMED).update(rows.n)

    def on_expires(self, ctx: Any) -> Any:
        return {"k": ctx.keys, "what": ["expire"] * len(ctx.keys)}


def changed(before: FunctionHarness, after: FunctionHarness) -> FunctionHarness:
    """The second one with the state of the first, as after a start with another function."""
    was, now = (Definition.of(each._spec.table, TimeDomain.EVENT) for each in (before, after))
    table = compare_definitions(was, now).definition.spec()
    after._inputs = [replace(each, spec=replace(each.spec, table=table)) for each in after._inputs]
    after._record, after._runs = before._record, before._runs
    after._batch_id, after._watermark_ms = before._batch_id, before._watermark_ms
    return after


@pytest.mark.parametrize("function", [Timed(), TimedBatch()])
def test_a_life_of_which_a_change_leaves_nothing_ends_as_empty(
    function: KeyedProcessFunction,
) -> None:
    before, minute = harness(Plain()), timedelta(minutes=1)
    before.batch([{**ROW, "k": key} for key in "ab"])
    after = changed(before, harness(function))
    after.batch([{**ROW, "t": BEGIN + minute}])
    created = {each["k"]: each["created_at"] for each in after.lives()}
    assert created == {"a": BEGIN + minute}
    assert after.batch([{**ROW, "k": "c", "t": BEGIN + 90 * minute}]) + after.finish() == []
    assert [each["k"] for each in after.lives()] == ["c"]

"""What calls a batched function on two inputs is given, and what is refused."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from idlestate import BatchedCoProcessFunction, KeyedProcessFunction, Policy
from idlestate.errors import RefusedError
from idlestate.state import ListStateDescriptor, ValueStateDescriptor
from idlestate.testing import CoFunctionHarness, FunctionHarness, check_cuts

BEGIN = datetime(2025, 3, 3, tzinfo=UTC)
LEFT = {"k": pa.string(), "t": pa.timestamp("us", "UTC"), "n": pa.int64()}
RIGHT = {"k": pa.string(), "t": pa.timestamp("us", "UTC"), "name": pa.string()}
OUTPUT = "k string, what string"


def left(key: str, second: int, n: int = 0) -> tuple[str, dict[str, Any]]:
    return "left", {"k": key, "t": BEGIN + timedelta(seconds=second), "n": n}


def right(key: str, second: int, name: str = "") -> tuple[str, dict[str, Any]]:
    return "right", {"k": key, "t": BEGIN + timedelta(seconds=second), "name": name}


class Named(BatchedCoProcessFunction):
    """Left rows with the newest name of the right input, and how many keys a call has."""

    name = ValueStateDescriptor(name="name", value_type=pa.string())

    def process_batch1(self, rows: Any, ctx: Any) -> Any:
        names, keys = ctx.state(self.name).value().to_pylist(), len(ctx.keys)
        of_rows = zip(rows.n.to_pylist(), names, strict=True)
        return {"k": ctx.keys, "what": [f"{n} {name} of {keys}" for n, name in of_rows]}

    def process_batch2(self, rows: Any, ctx: Any) -> Any:
        ctx.state(self.name).update(rows.name)
        return {"k": ctx.keys, "what": [f"{rows._fields} of {len(ctx.keys)}"] * len(ctx.keys)}


class NamedOneByOne(Named):
    def process_batch1(self, rows: Any, ctx: Any) -> Any:
        names = ctx.state(self.name).value().to_pylist()
        return {"k": ctx.keys, "what": [str(name) for name in names]}

    def process_batch2(self, rows: Any, ctx: Any) -> Any:
        ctx.state(self.name).update(rows.name)

    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield ctx.key, str(ctx.state(self.name).value())

    def process_element2(self, row: Any, ctx: Any) -> Any:
        ctx.state(self.name).update(row.name)


class Disagreeing(NamedOneByOne):
    def process_element2(self, row: Any, ctx: Any) -> Any:
        ctx.state(self.name).update(row.name.upper())


def harness(function: Any, **more: Any) -> CoFunctionHarness:
    arguments: dict[str, Any] = {"policy": Policy(ttl="1h"), "right_columns": ["name"], **more}
    return CoFunctionHarness(
        LEFT, RIGHT, key="k", function=function, output=OUTPUT, event_time="t", **arguments
    )


def told(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["k"], row["what"]) for row in rows]


def test_a_call_has_the_nth_records_of_one_input() -> None:
    tested = harness(Named(), in_order=False)
    records = [
        left("a", 1, 7), left("a", 3, 8), right("a", 2, "x"),
        right("b", 1, "y"), left("b", 2, 9), left("c", 5, 6),
    ]  # fmt: skip
    assert sorted(told(tested.batch(records))) == [
        ("a", "('name',) of 1"), ("a", "7 None of 2"), ("a", "8 x of 1"),
        ("b", "('name',) of 1"), ("b", "9 y of 1"), ("c", "6 None of 2"),
    ]  # fmt: skip


def test_an_input_without_records_gets_no_call() -> None:
    for records in ([left("a", 1), left("b", 1)], [right("a", 1), right("b", 1)], []):
        rows = harness(Named(), in_order=False).batch(records)
        assert [row["what"].endswith("of 2") for row in rows] == [True] * len(records)


def test_the_forms_of_two_inputs_are_compared() -> None:
    records = [right("a", 1, "x"), left("a", 2), right("b", 3, "y"), left("b", 4), left("a", 5)]
    check_cuts(harness(NamedOneByOne()), records, runs=5)
    arguments: dict[str, Any] = {"key": "k", "output": OUTPUT, "event_time": "t"}
    with pytest.raises(AssertionError) as raised:
        check_cuts(Disagreeing(), records, runs=5, **arguments)
    text = str(raised.value)
    assert text.startswith("the methods of one key and of many keys give different results\nbatch")
    assert "open lives only of the methods of one key: {'k': 'b', 'name': 'Y'" in text
    assert "open lives only of the methods of many keys: {'k': 'b', 'name': 'y'" in text


class Failing(Named):
    def process_batch2(self, rows: Any, ctx: Any) -> Any:
        if "bad" in rows.name.to_pylist():
            raise ValueError("bad name")
        return super().process_batch2(rows, ctx)


def test_the_record_on_which_a_call_of_an_input_fails_is_found() -> None:
    records = [left("a", 1, 7), right("a", 2, "x"), right("b", 3, "bad"), right("c", 4, "z")]
    with pytest.raises(RefusedError) as raised:
        harness(Failing(), in_order=False).batch(records)
    text = str(raised.value)
    assert "Failing.process_batch2 raised ValueError: bad name" in text
    assert "for key 'b' at 2025-03-03T00:00:03.000+00:00" in text
    rejecting = harness(Failing(), in_order=False, rejects=True, on_error="reject")
    rows = rejecting.batch(records)
    assert sorted(row["k"] for row in rows if not row["reason"]) == ["a", "a", "c"]
    (rejected,) = [json.loads(row["rejected"]) for row in rows if row["reason"]]
    assert (rejected["method"], rejected["row"]) == ("Failing.process_batch2", {"name": "bad"})


def test_a_call_that_fails_with_many_keys_only_names_its_method() -> None:
    class Lonely(Named):
        def process_batch1(self, rows: Any, ctx: Any) -> Any:
            if len(ctx.keys) > 1:
                raise ValueError("many")

    what = r"Lonely\.process_batch1 \(a call with 2 keys\) raised ValueError: many"
    with pytest.raises(RefusedError, match=what):
        harness(Lonely(), in_order=False).batch([left("a", 1), right("b", 1), left("c", 1)])


def test_what_does_not_fit_together_is_refused() -> None:
    class OneInput(BatchedCoProcessFunction):
        def process_batch1(self, rows: Any, ctx: Any) -> Any: ...

    class HalfOfOneKey(Named):
        def process_element1(self, row: Any, ctx: Any) -> Any: ...

    class NoTimers(NamedOneByOne):
        def on_timer(self, name: str | None, ctx: Any) -> Any: ...

    class OneKeyExpires(Named):
        def on_expire(self, ctx: Any) -> Any: ...

    class Lists(Named):
        names = ListStateDescriptor(name="names", value_type=pa.string())

    for function, message in (
        (OneInput(), "OneInput has no process_batch2; define it, or derive the class from KeyedCo"),
        (HalfOfOneKey(), "has process_batch2 but no process_element2; define both, because it ha"),
        (NoTimers(), "NoTimers has on_timer but no on_timers; define both"),
        (OneKeyExpires(), "has on_expire but no process_element1; define on_expires instead"),
        (Lists(), "'names' is a list state, .*define process_element1 and process_element2 too"),
    ):  # fmt: skip
        with pytest.raises(RefusedError, match=f"^operator 'harness': .*{message}"):
            harness(function)
    one_input: KeyedProcessFunction = Named()
    with pytest.raises(RefusedError, match="function is for two inputs; pass it to co_process"):
        FunctionHarness(
            LEFT, key="k", function=one_input, output=OUTPUT, event_time="t", policy=Policy()
        )


def test_a_list_state_is_given_to_the_methods_of_one_key() -> None:
    class Listed(NamedOneByOne):
        names = ListStateDescriptor(name="names", value_type=pa.string())

        def process_element1(self, row: Any, ctx: Any) -> Any:
            yield ctx.key, ",".join(ctx.state(self.names).get())

        def process_element2(self, row: Any, ctx: Any) -> Any:
            ctx.state(self.names).add(row.name)

    records = [right("a", 1, "x"), right("a", 2, "y"), left("a", 3), left("b", 3)]
    rows = harness(Listed(), in_order=False).batch(records)
    assert sorted(told(rows)) == [("a", "x,y"), ("b", "")]

"""Functions under an idle rule against recordings of Flink: a count trigger, and two inputs."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from idlestate import CountTriggeredFunction, KeyedCoProcessFunction, Policy
from idlestate.errors import RefusedError
from idlestate.state import ListStateDescriptor, ValueStateDescriptor
from idlestate.testing import CoFunctionHarness, FunctionHarness, check_cuts
from tests.golden_files import read_traces

EPOCH = datetime(1970, 1, 3, tzinfo=UTC)
SCHEMA = {"key": pa.string(), "t": pa.timestamp("us", "UTC"), "side": pa.int64()}
TRIGGER = "StateCleaningCountTrigger"
SIDES = {1: "left", 2: "right"}


class Trigger(CountTriggeredFunction):
    """Yields what the recorded trigger returned, other than CONTINUE."""

    def fire(self, count: int, ctx: Any) -> Any:
        yield ctx.key, "FIRE", ctx.timestamp_ms

    def on_expire(self, ctx: Any) -> Any:
        yield ctx.key, "FIRE_AND_PURGE", ctx.timestamp_ms


class CoProcess(KeyedCoProcessFunction):
    """Counts the records of each input."""

    l = ValueStateDescriptor(name="l", value_type=pa.int64())  # noqa: E741 - its name there
    r = ValueStateDescriptor(name="r", value_type=pa.int64())

    def process_element1(self, row: Any, ctx: Any) -> Any:
        self.add(ctx.state(self.l))

    def process_element2(self, row: Any, ctx: Any) -> Any:
        self.add(ctx.state(self.r))

    def add(self, count: Any) -> None:
        count.update((count.value() or 0) + 1)

    def on_expire(self, ctx: Any) -> Any:
        yield ctx.key, "cleaned", ctx.timestamp_ms


def harness(function: Any, policy: Policy, **more: Any) -> Any:
    arguments = {
        "key": "key",
        "function": function,
        "output": "key string, what string, at_ms bigint",
        "event_time": "t",
        "policy": policy,
        "in_order": False,
        **more,
    }
    if isinstance(function, KeyedCoProcessFunction):
        return CoFunctionHarness(SCHEMA, SCHEMA, **arguments)
    return FunctionHarness(SCHEMA, **arguments)


def shifted(ms: int) -> int:
    """A time since the epoch of a time since the beginning."""
    return ms + round(EPOCH.timestamp() * 1000)


def row(step: dict[str, Any]) -> dict[str, Any]:
    at = EPOCH + timedelta(milliseconds=step["t"])
    return {"key": step["key"], "t": at, "side": step.get("side")}


def recorded(ops: Sequence[dict[str, Any]]) -> Counter[Any]:
    """Rows of the recording."""
    found = []
    for step in ops:
        for timer in step["fired_before"]:
            found.append((timer["key"], timer["result"], shifted(timer["ts"])))
        if step.get("result") == "FIRE":
            found.append((step["key"], "FIRE", shifted(step["t"])))
    return Counter(found)


@pytest.mark.golden
@pytest.mark.parametrize(
    "trace", read_traces("idle_cleanup_legacy"), ids=lambda each: each["trace"]
)
def test_functions_fire_and_forget_as_flink_does(trace: dict[str, Any]) -> None:
    policy = Policy()
    if trace["enabled"]:
        policy = Policy(idle_min_ms=trace["min_ms"], idle_max_ms=trace["max_ms"], min_gap_ms=0)
    is_trigger = trace["class"] == TRIGGER
    function = Trigger(trace["max_count"]) if is_trigger else CoProcess()
    tested, rows, ops = harness(function, policy), [], trace["ops"]

    def of(step: dict[str, Any]) -> Any:
        return row(step) if is_trigger else (SIDES[step.get("side", 1)], row(step))

    last: dict[str, dict[str, Any]] = {}
    for begin in range(0, len(ops), 7):
        part = ops[begin : begin + 7]
        rows += tested.batch([of(step) for step in part])
        last |= {step["key"]: step for step in part}
        for life in tested.lives():
            step = last[life["key"]]
            states = {"count": life["counted"] or None} if is_trigger else dict(life)
            assert {name: states[name] for name in step["state"]} == step["state"]
            if trace["enabled"]:
                assert life["deadline"] == EPOCH + timedelta(milliseconds=step["cleanup_time"])
    # Time goes on to the last record's, for both inputs.
    ends = [of({"key": "other", "t": ops[-1]["t"] + 1, "side": side}) for side in SIDES]
    rows += tested.batch(ends) + tested.batch([])
    rows = [each for each in rows if each["key"] != "other"]
    assert Counter(tuple(each.values()) for each in rows) == recorded(ops)


class Pages(CountTriggeredFunction):
    """The sides of every three records of a key, and of those left over at its end."""

    sides = ListStateDescriptor(name="sides", value_type=pa.int64())

    def add(self, row: Any, ctx: Any) -> None:
        ctx.state(self.sides).add(row.side)

    def fire(self, count: int, ctx: Any) -> Any:
        yield ctx.key, f"{ctx.state(self.sides).get()}", ctx.timestamp_ms
        if count == self.every:
            ctx.state(self.sides).clear()


def test_the_remainder_fires_at_the_end_of_the_life_and_cuts_change_nothing() -> None:
    rule = Policy(idle_min="20s", idle_max="30s", min_gap="0s")
    seconds = [1, 2, 3, 4, 40, 41, 42, 90, 91, 92, 93, 94, 200]
    records = [
        {"key": "k", "t": EPOCH + timedelta(seconds=at), "side": number}
        for number, at in enumerate(seconds)
    ]
    tested = harness(Pages(3), rule, in_order=True, delay="5s")
    rows = tested.batch(records) + tested.finish()
    found = [(each["what"], (each["at_ms"] - shifted(0)) // 1000) for each in rows]
    assert found == [
        ("[0, 1, 2]", 3),
        ("[3]", 31),
        ("[4, 5, 6]", 42),
        ("[7, 8, 9]", 92),
        ("[10, 11]", 120),
    ]
    check_cuts(lambda: harness(Pages(3), rule, in_order=True, delay="5s"), records, runs=5)


@pytest.mark.parametrize("every", [0, -1, True, 2.0, "3"])
def test_a_trigger_that_never_fires_is_refused(every: Any) -> None:
    with pytest.raises(RefusedError, match="pass a whole number of 1 or more"):
        Trigger(every)

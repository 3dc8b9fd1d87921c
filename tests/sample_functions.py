"""Functions as a user writes them, for type checkers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate import (
    BatchContext,
    BatchedCoProcessFunction,
    BatchedProcessFunction,
    CountTriggeredFunction,
    FunctionContext,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    Policy,
)
from idlestate.state import ListStateDescriptor, ValueStateDescriptor
from idlestate.testing import CoFunctionHarness, FunctionHarness, check_cuts


class Alert(KeyedProcessFunction):
    count = ValueStateDescriptor(name="count", value_type=pa.int64(), default=0)

    def open(self, ctx: FunctionContext) -> None:
        ctx.state(self.count)

    def process_element(self, row: Any, ctx: FunctionContext) -> Iterator[tuple[str, int]]:
        count = ctx.state(self.count)
        count.update(count.value() + 1)
        ctx.timer("quiet", ctx.timestamp_ms + 60_000)
        yield ctx.key, count.value()

    def on_timer(self, name: str | None, ctx: FunctionContext) -> list[tuple[str, int]]:
        return [(ctx.key, ctx.timer_at("quiet") or 0)]

    def on_expire(self, ctx: FunctionContext) -> None:
        pass


class Two(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: FunctionContext) -> Iterator[tuple[str, int]]:
        yield ctx.key, row.n

    def process_element2(self, row: Any, ctx: FunctionContext) -> None:
        ctx.register_timer(5)


class Fast(BatchedProcessFunction):
    count = ValueStateDescriptor(name="count", value_type=pa.int64(), default=0)

    def process_batch(self, rows: Any, ctx: BatchContext) -> Iterator[dict[str, Any]]:
        count = ctx.state(self.count)
        count.update(count.value() + 1, where=np.ones(len(ctx.timestamps_ms), dtype=bool))
        yield {"k": ctx.keys, "n": count.value()}

    def on_timers(self, name: str | None, ctx: BatchContext) -> pa.Table:
        return pa.table({"k": ctx.keys, "n": ctx.timestamps_ms})

    def on_expires(self, ctx: BatchContext) -> dict[str, Any]:
        return {"k": ctx.keys, "n": ctx.timestamps_ms}


class FastTwo(BatchedCoProcessFunction):
    count = ValueStateDescriptor(name="count", value_type=pa.int64(), default=0)

    def process_batch1(self, rows: Any, ctx: BatchContext) -> Iterator[dict[str, Any]]:
        yield {"k": ctx.keys, "n": ctx.state(self.count).value()}

    def process_batch2(self, rows: Any, ctx: BatchContext) -> None:
        ctx.state(self.count).update(rows.n)

    def process_element1(self, row: Any, ctx: FunctionContext) -> Iterator[tuple[str, int]]:
        yield ctx.key, ctx.state(self.count).value()

    def process_element2(self, row: Any, ctx: FunctionContext) -> None:
        ctx.state(self.count).update(row.n)


class Pages(CountTriggeredFunction):
    pages = ListStateDescriptor(name="pages", value_type=pa.string())

    def add(self, row: Any, ctx: FunctionContext) -> None:
        ctx.state(self.pages).add(row.page)

    def fire(self, count: int, ctx: FunctionContext) -> Iterator[tuple[str, int]]:
        yield ctx.key, count


SCHEMA = {"k": pa.string(), "t": pa.timestamp("us", "UTC"), "n": pa.int64()}


def made(function: KeyedProcessFunction) -> FunctionHarness:
    return FunctionHarness(
        SCHEMA,
        key="k",
        function=function,
        output="k string, n bigint",
        event_time="t",
        policy=Policy(ttl="1h"),
    )


check_cuts(lambda: made(Alert()), [{"k": "a", "n": 1}])
for function in (Two(), FastTwo()):
    check_cuts(function, [("left", {"k": "a"})], key="k", output="k string, n bigint")
check_cuts(
    lambda: CoFunctionHarness(
        SCHEMA, SCHEMA, key="k", function=FastTwo(), output="k string, n bigint", event_time="t"
    ),
    [("left", {"k": "a"})],
    runs=2,
)
made(Fast())
made(Pages(3))

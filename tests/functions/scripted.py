"""A function that does what its records say, so that Hypothesis can write programs."""

from typing import Any

import pyarrow as pa

from idlestate import KeyedProcessFunction
from idlestate.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    UpdateType,
    ValueStateDescriptor,
)


class Mean:
    def create_accumulator(self) -> dict[str, int]:
        return {"total": 0, "count": 0}

    def add(self, value: int, accumulator: dict[str, int]) -> dict[str, int]:
        return {"total": accumulator["total"] + value, "count": accumulator["count"] + 1}

    def get_result(self, accumulator: dict[str, int]) -> float:
        return accumulator["total"] / accumulator["count"]

    def merge(self, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
        raise NotImplementedError


MEAN = pa.struct([("total", pa.int64()), ("count", pa.int64())])
TIMERS: dict[str, list[tuple[str | None, int]]] = {
    "quiet": [("quiet", 5)],
    "other": [("other", 5)],
    "plain": [(None, 3)],
    "after": [("quiet", 40)],  # most lives end before
    "past": [("other", -3)],
    "same": [("quiet", 5), ("other", 5), (None, 5)],
}
"""Operations that set timers, None a plain one; times are multiples of the record's number."""
OPERATIONS = (
    *("count", "list", "map", "unmap", "sum", "mean", "clear", *TIMERS),
    *("unquiet", "look", "forget", "nothing"),
)


def stored_states(ttl: StateTtlConfig | None = None) -> dict[str, Any]:
    """A state of each kind."""
    of: Any = {"ttl": ttl}
    return {
        "count": ValueStateDescriptor(name="count", value_type=pa.int64(), default=0, **of),
        "list": ListStateDescriptor(name="list", value_type=pa.string(), **of),
        "map": MapStateDescriptor(name="map", key_type=pa.string(), value_type=pa.float64(), **of),
        "sum": ReducingStateDescriptor(
            name="sum", value_type=pa.int32(), reduce=lambda a, b: a + b, **of
        ),
        "mean": AggregatingStateDescriptor(name="mean", value_type=MEAN, aggregate=Mean(), **of),
    }


class Scripted(KeyedProcessFunction):
    """A record has `op` and `n`."""

    def __init__(self, ttl_ms: int | None = None, *, renews: bool = False) -> None:
        ttl = None
        if ttl_ms is not None:
            update = UpdateType.ON_CREATE_AND_WRITE
            if renews:
                update = UpdateType.ON_READ_AND_WRITE
            ttl = StateTtlConfig(ttl_ms=ttl_ms, update_type=update)
        self.states = stored_states(ttl)

    def open(self, ctx: Any) -> None:
        for each in self.states.values():
            ctx.state(each)

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield from self.do(row.op, row.n, ctx)

    def on_timer(self, name: str | None, ctx: Any) -> Any:
        yield self.row(f"timer {name}", ctx)
        count = ctx.state(self.states["count"])
        left = count.value() or 0
        if name == "other" and left:
            count.update(left - 1)
            ctx.timer("other", ctx.timestamp_ms + 7)
        elif name == "quiet" and left > 2:
            for each in self.states.values():
                ctx.state(each).clear()
        elif name == "quiet" and left == 2:
            ctx.timer("other", ctx.timestamp_ms - 1)
        elif name is None:
            if left == 1:
                ctx.timer("quiet", ctx.timestamp_ms)
            count.clear()

    def on_expire(self, ctx: Any) -> Any:
        yield self.row("expire", ctx)

    def do(self, op: str, n: int, ctx: Any) -> Any:
        if op == "count":
            count = ctx.state(self.states["count"])
            count.update((count.value() or 0) + 1)
        elif op == "list":
            ctx.state(self.states["list"]).add(f"é{n}" * (n % 3))
        elif op == "map":
            ctx.state(self.states["map"]).put(f"k{n % 3}", float(n))
        elif op == "unmap":
            ctx.state(self.states["map"]).remove(f"k{n % 3}")
        elif op in ("sum", "mean"):
            ctx.state(self.states[op]).add(n)
        elif op in TIMERS:
            set_timers(op, n, ctx)
        elif op == "unquiet":
            ctx.delete_timer("quiet")
        elif op == "clear":
            ctx.state(list(self.states.values())[n % 5]).clear()
        elif op == "forget":
            for each in self.states.values():
                ctx.state(each).clear()
            ctx.delete_timer("quiet")
            ctx.delete_timer("other")
        elif op == "look":
            yield self.row("look", ctx)

    def row(self, what: str, ctx: Any) -> tuple[Any, ...]:
        of = {name: ctx.state(each) for name, each in self.states.items()}
        shown = [
            of["count"].value(),
            of["list"].get(),
            sorted(of["map"].entries()),
            of["sum"].get(),
            of["mean"].get(),
        ]
        return (ctx.key, what, ctx.timestamp_ms, repr(shown))


def set_timers(op: str, n: int, ctx: Any) -> None:
    for name, ms in TIMERS[op]:
        at_ms = ctx.timestamp_ms + ms * n
        if name is None:
            ctx.register_timer(at_ms)
        else:
            ctx.timer(name, at_ms)


OUTPUT = "key string, what string, at bigint, state string"

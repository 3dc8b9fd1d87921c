"""A function with lists and maps that does what its records say."""

from typing import Any

import pyarrow as pa

from idlestate import KeyedProcessFunction
from idlestate.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    UpdateType,
    ValueStateDescriptor,
)

OPERATIONS = (
    *("put", "put", "put", "many", "more", "get", "remove", "add", "add", "add_many"),
    *("elements", "entries", "count", "clear_map", "clear_list", "clear_many", "forget"),
    *("quiet", "replace"),
)


class LargeScripted(KeyedProcessFunction):
    """A record has `op` and `n`."""

    def __init__(self, ttl_ms: int | None = None, *, renews: bool = False) -> None:
        of = {}
        if ttl_ms is not None:
            update = UpdateType.ON_CREATE_AND_WRITE
            if renews:
                update = UpdateType.ON_READ_AND_WRITE
            of = {"ttl": StateTtlConfig(ttl_ms=ttl_ms, update_type=update)}
        self.states: dict[str, Any] = {
            "map": MapStateDescriptor(
                name="map", key_type=pa.string(), value_type=pa.int64(), **of
            ),
            "many": MapStateDescriptor(
                name="many", key_type=pa.int32(), value_type=pa.string(), **of
            ),
            "list": ListStateDescriptor(name="list", value_type=pa.string(), **of),
            "count": ValueStateDescriptor(name="count", value_type=pa.int64()),
        }

    def open(self, ctx: Any) -> None:
        for each in self.states.values():
            ctx.state(each)

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield from self.do(row.op, row.n, ctx)
        if row.op == "fail":
            ctx.state(self.states["map"]).put("fail", row.n)
            ctx.state(self.states["list"]).add("fail")
            ctx.state(self.states["map"]).remove("k1")
            raise ValueError(row.n)

    def on_timer(self, name: str | None, ctx: Any) -> Any:
        yield self.row(f"timer {name}", ctx)

    def on_expire(self, ctx: Any) -> Any:
        yield self.row("expire", ctx)

    def do(self, op: str, n: int, ctx: Any) -> Any:  # noqa: PLR0912 - a case per operation
        of = {name: ctx.state(each) for name, each in self.states.items()}
        if op == "put":
            of["map"].put(f"k{n % 6}", n)
        elif op in ("many", "more"):
            for at in range(n if op == "many" else 2):
                of["many"].put(n + at, "é" * n)
        elif op == "get":
            yield (ctx.key, op, ctx.timestamp_ms, repr(of["map"].get(f"k{n % 6}")))
            yield (ctx.key, op, ctx.timestamp_ms, repr(of["many"].get(n)))
        elif op == "remove":
            of["map"].remove(f"k{n % 6}")
            of["many"].remove(n)
        elif op == "add":
            of["list"].add(f"e{n}")
        elif op == "add_many":
            for at in range(n):
                of["list"].add("x" * at)
        elif op == "elements":
            yield (ctx.key, op, ctx.timestamp_ms, repr(of["list"].get()))
        elif op == "entries":
            yield self.row(op, ctx)
        elif op == "count":
            of["count"].update(n)
        elif op == "replace":
            for each in ("map", "list"):
                of[each].clear()
            of["map"].put(f"k{n % 6}", -n)
            of["list"].add("one")
        elif op == "quiet":
            ctx.timer("quiet", ctx.timestamp_ms + 5 * n)
        elif op.startswith("clear_"):
            of[op.removeprefix("clear_")].clear()
        elif op == "forget":
            for state in of.values():
                state.clear()
            ctx.delete_timer("quiet")

    def row(self, what: str, ctx: Any) -> tuple[Any, ...]:
        of = {name: ctx.state(each) for name, each in self.states.items()}
        shown = of["map"].entries(), of["many"].entries(), of["list"].get()
        return (ctx.key, what, ctx.timestamp_ms, repr(shown))


OUTPUT = "key string, what string, at bigint, state string"

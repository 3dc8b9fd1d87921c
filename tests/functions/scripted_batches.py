"""A function in both forms that does what its records say, for programs by Hypothesis."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate import BatchedProcessFunction
from idlestate.state import StateTtlConfig, UpdateType, ValueStateDescriptor
from tests.functions.scripted import TIMERS, set_timers

OPERATIONS = (
    *("count", "count", "text", "clear", "unplain", "unquiet"),
    *("look", "forget", "nothing", *TIMERS),
)
OUTPUT = "key string, what string, at bigint, count bigint, text string"
BEGIN_MS = 86_400_000 * 10


class Batched(BatchedProcessFunction):
    """A record has `op` and `n`."""

    def __init__(self, ttl_ms: int | None = None, *, renews: bool = False) -> None:
        of: dict[str, Any] = {}
        if ttl_ms is not None:
            update = UpdateType.ON_CREATE_AND_WRITE
            if renews:
                update = UpdateType.ON_READ_AND_WRITE
            of = {"ttl": StateTtlConfig(ttl_ms=ttl_ms, update_type=update)}
        self.states = {
            "count": ValueStateDescriptor(name="count", value_type=pa.int64(), default=0, **of),
            "text": ValueStateDescriptor(name="text", value_type=pa.string(), **of),
        }

    def open(self, ctx: Any) -> None:
        for each in self.states.values():
            ctx.state(each)

    def process_batch(self, rows: Any, ctx: Any) -> Any:
        ops, n, now = rows.op.to_pylist(), rows.n.to_numpy(), ctx.timestamps_ms
        of = {op: np.array([each == op for each in ops]) for op in set(ops)}
        none = np.zeros(len(ops), dtype=bool)
        if "fail" in of:
            raise ValueError("as asked")
        yield self.shown("look", ctx, of.get("look", none))
        count, text = (ctx.state(each) for each in self.states.values())
        # Reading renews and forgets, so only those are read that the other form reads.
        if "count" in of:
            found = pc.fill_null(pa.array(count.value()), 0).to_numpy()
            count.update(found + 1, where=of["count"])
        text.update(pa.array([f"é{each}" for each in n]), where=of.get("text", none))
        count.clear(where=of.get("clear", none) & (n % 2 == 0))
        text.clear(where=of.get("clear", none) & (n % 2 == 1))
        for op, timers in TIMERS.items():
            for name, ms in timers:
                if name is None:
                    ctx.register_timer(now + ms * n, where=of.get(op, none))
                else:
                    ctx.timer(name, now + ms * n, where=of.get(op, none))
        ctx.delete_timer(now + 3 * n, where=of.get("unplain", none))
        ctx.delete_timer("quiet", where=of.get("unquiet", none))
        forgets = of.get("forget", none)
        for state in (count, text):
            state.clear(where=forgets)
        for name in ("quiet", "other"):
            ctx.delete_timer(name, where=forgets)

    def on_timers(self, name: str | None, ctx: Any) -> Any:
        yield self.shown(f"timer {name}", ctx, None)
        count, text = (ctx.state(each) for each in self.states.values())
        left = pc.fill_null(pa.array(count.value()), 0).to_numpy()
        if name == "other":
            count.update(left - 1, where=left > 0)
            ctx.timer("other", ctx.timestamps_ms + 7, where=left > 0)
        elif name == "quiet":
            for state in (count, text):
                state.clear(where=left > 2)
            ctx.timer("other", ctx.timestamps_ms - 1, where=left == 2)
        else:
            ctx.timer("quiet", ctx.timestamps_ms, where=left == 1)
            count.clear()

    def on_expires(self, ctx: Any) -> Any:
        return self.shown("expire", ctx, None)

    def shown(self, what: str, ctx: Any, where: Any) -> Any:
        if where is not None and not where.any():
            return {"key": [], "what": [], "at": [], "count": [], "text": []}
        found = pa.table(
            {
                "key": ctx.keys,
                "what": [what] * len(ctx.keys),
                "at": ctx.timestamps_ms,
                **{name: ctx.state(each).value() for name, each in self.states.items()},
            }
        )
        return found if where is None else found.filter(pa.array(where))


class Both(Batched):
    def process_element(self, row: Any, ctx: Any) -> Any:
        now, op, n = ctx.timestamp_ms, row.op, row.n
        count, text = (ctx.state(each) for each in self.states.values())
        if op == "fail":
            raise ValueError("as asked")
        if op == "look":
            yield self.row("look", ctx)
        elif op == "count":
            count.update((count.value() or 0) + 1)
        elif op == "text":
            text.update(f"é{n}")
        elif op == "clear":
            (text if n % 2 else count).clear()
        elif op in TIMERS:
            set_timers(op, n, ctx)
        elif op == "unplain":
            ctx.delete_timer(now + 3 * n)
        elif op == "unquiet":
            ctx.delete_timer("quiet")
        elif op == "forget":
            count.clear()
            text.clear()
            ctx.delete_timer("quiet")
            ctx.delete_timer("other")

    def on_timer(self, name: str | None, ctx: Any) -> Any:
        yield self.row(f"timer {name}", ctx)
        count, text = (ctx.state(each) for each in self.states.values())
        left = count.value() or 0
        if name == "other" and left > 0:
            count.update(left - 1)
            ctx.timer("other", ctx.timestamp_ms + 7)
        elif name == "quiet" and left > 2:
            count.clear()
            text.clear()
        elif name == "quiet" and left == 2:
            ctx.timer("other", ctx.timestamp_ms - 1)
        elif name is None:
            if left == 1:
                ctx.timer("quiet", ctx.timestamp_ms)
            count.clear()

    def on_expire(self, ctx: Any) -> Any:
        yield self.row("expire", ctx)

    def row(self, what: str, ctx: Any) -> tuple[Any, ...]:
        return (
            ctx.key,
            what,
            ctx.timestamp_ms,
            *(ctx.state(s).value() for s in self.states.values()),
        )

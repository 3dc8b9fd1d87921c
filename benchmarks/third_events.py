"""One function, with `process` and with Spark's stateful processor: it reports every third event of
a key, and its count when the key has been quiet for a while.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from idlestate import (
    BatchedCoProcessFunction,
    BatchedProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    process,
)
from idlestate.state import ValueStateDescriptor
from recipes import Windows

REPORTED = StructType(
    [
        StructField("key", StringType()),
        StructField("what", StringType()),
        StructField("n", LongType()),
    ]
)


class Third(KeyedProcessFunction):
    """With `process`."""

    count = ValueStateDescriptor(name="count", value_type=pa.int64(), default=0)

    def __init__(self, quiet_ms: int) -> None:
        self._quiet_ms = quiet_ms

    def process_element(self, row: Any, ctx: Any) -> Any:  # noqa: ARG002 - the key and time do
        count = ctx.state(self.count)
        n = count.value() + 1
        count.update(n)
        ctx.timer("quiet", ctx.timestamp_ms + self._quiet_ms)
        if n % 3 == 0:
            return ((ctx.key, "third", n),)
        return None

    def on_timer(self, name: str | None, ctx: Any) -> Any:
        count = ctx.state(self.count)
        found = ((ctx.key, name, count.value()),)
        count.clear()
        return found


class ThirdBatched(BatchedProcessFunction):
    """The same for many keys in a call."""

    count = Third.count

    def __init__(self, quiet_ms: int) -> None:
        self._quiet_ms = quiet_ms

    def process_batch(self, rows: Any, ctx: Any) -> Any:  # noqa: ARG002 - keys and times do
        count = ctx.state(self.count)
        n = count.value() + 1
        count.update(n)
        ctx.timer("quiet", ctx.timestamps_ms + self._quiet_ms)
        return _reported("third", ctx, n, n % 3 == 0)

    def on_timers(self, name: str | None, ctx: Any) -> Any:
        count = ctx.state(self.count)
        n = count.value()
        count.clear()
        return _reported(str(name), ctx, n, np.ones(len(n), dtype=bool))


class ThirdBoth(ThirdBatched):
    """In both forms."""

    process_element = Third.process_element
    on_timer = Third.on_timer


class ThirdOfTwo(Third, KeyedCoProcessFunction):
    """With `co_process`: events of both inputs count."""

    process_element = KeyedCoProcessFunction.process_element
    process_element1 = process_element2 = Third.process_element


class ThirdOfTwoBatched(ThirdBatched, BatchedCoProcessFunction):
    """The same for many keys in a call."""

    process_batch = BatchedCoProcessFunction.process_batch
    process_batch1 = process_batch2 = ThirdBatched.process_batch


class ThirdOfTwoBoth(ThirdOfTwoBatched):
    """In both forms."""

    process_element1 = process_element2 = Third.process_element
    on_timer = Third.on_timer


def _reported(what: str, ctx: Any, n: Any, where: Any) -> dict[str, Any] | None:
    if not where.any():
        return None
    keys = ctx.keys.filter(pa.array(where))
    return {"key": keys, "what": pa.repeat(what, len(keys)), "n": n[where]}


class ThirdRow(StatefulProcessor):
    """With `transformWithState`, row by row."""

    def __init__(self, quiet_ms: int) -> None:
        self._quiet_ms = quiet_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        fields = [StructField("n", LongType()), StructField("due_ms", LongType())]
        self._state = handle.getValueState("state", StructType(fields))

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        n, before_ms = self._state.get() or (0, None)
        due_ms = before_ms
        for row in rows:
            n += 1
            due_ms = max(due_ms or 0, row.at_ms + self._quiet_ms)
            if n % 3 == 0:
                yield Row(key=key[0], what="third", n=n)
        if due_ms != before_ms:
            if before_ms is not None:
                self._handle.deleteTimer(before_ms)
            self._handle.registerTimer(due_ms)
        self._state.update((n, due_ms))

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: Any,  # noqa: ARG002, N803
        expiredTimerInfo: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        n, _ = self._state.get()
        self._state.clear()
        yield Row(key=key[0], what="quiet", n=n)

    def close(self) -> None:
        pass


def with_process(events: DataFrame, windows: Windows) -> DataFrame:
    """The function with `process`; rows count as they come, as in Spark's operator."""
    return process(
        events,
        key="key",
        function=Third(windows.max_ms),
        output="key string, what string, n bigint",
        uid="bench",
        event_time="event_time",
        columns=[],
        in_order=False,
    )


def with_state(events: DataFrame, windows: Windows) -> DataFrame:
    """The function with `transformWithState`."""
    marked = events.selectExpr("key", "event_time", "unix_millis(event_time) at_ms")
    return (
        marked.withWatermark("event_time", "1 millisecond")
        .groupBy("key")
        .transformWithState(ThirdRow(windows.max_ms), REPORTED, "Append", "EventTime")
    )

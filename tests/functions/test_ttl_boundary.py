"""State TTL at its boundary: 100 ms after a write at 50 ms, in every form of a function."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from idlestate import BatchedProcessFunction, KeyedProcessFunction, Policy
from idlestate.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from idlestate.testing import FunctionHarness
from tests.functions.test_function_law import BASE_MS, SCHEMA, row

TTL = StateTtlConfig(ttl="100ms")
VALUE = ValueStateDescriptor(name="value", value_type=pa.int32(), ttl=TTL)
LIST = ListStateDescriptor(name="list", value_type=pa.int32(), ttl=TTL)
MAP = MapStateDescriptor(name="map", key_type=pa.string(), value_type=pa.int32(), ttl=TTL)


class Kept(KeyedProcessFunction):
    """Shows what it has, and keeps the records of the operation `put`."""

    value, many, named = VALUE, LIST, MAP

    def process_element(self, row: Any, ctx: Any) -> Any:
        value, many, named = ctx.state(VALUE), ctx.state(LIST), ctx.state(MAP)
        shown = {value.value(), *(many.get() or [None]), named.get("n")}
        yield ctx.timestamp_ms - BASE_MS, shown.pop() if len(shown) == 1 else -1
        if row.op == "put":
            value.update(row.n)
            many.add(row.n)
            named.put("n", row.n)


class KeptByBatches(BatchedProcessFunction):
    """The same with a value alone."""

    value = VALUE

    def process_batch(self, rows: Any, ctx: Any) -> Any:
        value = ctx.state(VALUE)
        yield {"at": ctx.timestamps_ms - BASE_MS, "kept": value.value()}
        value.update(rows.n, where=np.array([each == "put" for each in rows.op.to_pylist()]))


@pytest.mark.parametrize("function", [Kept(), KeptByBatches()])
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("batches", [[[0, 1, 2]], [[0], [1], [2]], [[0, 1], [2]], [[0], [1, 2]]])
def test_a_state_written_at_50_with_ttl_100ms_is_visible_at_149_and_gone_at_150(
    function: Any, batches: list[list[int]], *, in_order: bool
) -> None:
    records = [("a", 50, "put", 7), ("a", 149, "get", 0), ("a", 150, "get", 0)]
    tested = FunctionHarness(
        SCHEMA,
        key="key",
        function=function,
        output="at bigint, kept int",
        event_time="t",
        columns=["op", "n"],
        policy=Policy(),
        in_order=in_order,
    )
    found = [each for batch in batches for each in tested.batch([row(records[at]) for at in batch])]
    found += tested.finish()
    assert [(each["at"], each["kept"]) for each in found] == [(50, None), (149, 7), (150, None)]

"""State TTL at its boundary: 100 ms after a write at 50 ms, in every form of a function; and at the
ends of 64-bit time.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate import BatchedProcessFunction, KeyedProcessFunction, Policy
from idlestate.functions.declared_states import opened_copy
from idlestate.functions.ttl_cells import TtlListCell, TtlMapCell, TtlValueCell
from idlestate.functions.value_column import ValueColumn
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS
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

EDGES = [NEVER_MS, NEVER_MS + 1, -1, 0, 1, FOREVER_MS - 1, FOREVER_MS]
TIMES = st.sampled_from(EDGES) | st.integers(NEVER_MS, FOREVER_MS)
TTLS = st.sampled_from([1, 2, FOREVER_MS - 1]) | st.integers(1, FOREVER_MS - 1)


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


@given(TIMES, TTLS, TIMES)
def test_every_form_of_a_state_ends_by_the_rule_at_the_ends_of_time(
    stamp_ms: int, ttl_ms: int, now_ms: int
) -> None:
    """The rule written out in Python's integers, which do not overflow."""
    end_ms = min(stamp_ms + ttl_ms, FOREVER_MS)
    shown = 7 if end_ms > now_ms else None
    ttl = StateTtlConfig(ttl_ms=ttl_ms)
    context: Any = SimpleNamespace(timestamp_ms=stamp_ms)
    value = TtlValueCell(replace(VALUE, ttl=ttl), context)
    many = TtlListCell(replace(LIST, ttl=ttl), context)
    named = TtlMapCell(replace(MAP, ttl=ttl), context)
    value.update(7)
    many.add(7)
    named.put("n", 7)
    assert [each.ends_at_ms() for each in (value, many, named)] == [end_ms] * 3
    context.timestamp_ms = now_ms
    assert [value.seen(), *(many.seen() or [None]), named.seen().get("n")] == [shown] * 3
    assert [value.value(), *(many.get() or [None]), named.get("n")] == [shown] * 3

    stored = opened_copy(KeptByBatches()).columns()[0]
    column, keys = ValueColumn(replace(VALUE, ttl=ttl), stored, 1), np.array([0])
    column.call(keys, np.array([stamp_ms]))
    column.update(pa.array([7], pa.int32()))
    assert column.ends_at_ms(keys).tolist() == [end_ms]
    column.call(keys, np.array([now_ms]))
    assert column.value().to_pylist() == [shown]

"""Values of states are the same right after they were set and when they are read a batch later."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from idlestate import KeyedProcessFunction, Policy
from idlestate.functions.errors import FunctionError
from idlestate.state import ValueStateDescriptor
from idlestate.testing import FunctionHarness

MOMENT = datetime(2025, 3, 3, tzinfo=UTC)
STRUCT = pa.struct([("at", pa.timestamp("us", "UTC"))])


class Shows(KeyedProcessFunction):
    """Sets a value with its first record, and shows it with each."""

    def __init__(self, kind: pa.DataType, value: Any) -> None:
        self.value, self.given = ValueStateDescriptor(name="value", value_type=kind), value

    def process_element(self, row: Any, ctx: Any) -> Any:
        state = ctx.state(self.value)
        if state.value() is None:
            state.update(self.given)
        yield (repr(state.value()),)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("us", "UTC"), MOMENT),
        (pa.timestamp("us", "UTC"), MOMENT.astimezone(tz=None)),
        (pa.timestamp("us"), MOMENT.replace(tzinfo=None)),
        (pa.date32(), date(2025, 3, 3)),
        (pa.decimal128(6, 2), Decimal("1.5")),
        (pa.float32(), 0.1),
        (pa.float64(), 1),
        (pa.int8(), 3),
        (STRUCT, {"at": MOMENT}),
    ],
    ids=str,
)
def test_a_value_is_shown_alike_in_its_batch_and_in_the_next(kind: pa.DataType, value: Any) -> None:
    harness = FunctionHarness(
        {"k": pa.string(), "t": pa.timestamp("us", "UTC")},
        key="k",
        event_time="t",
        function=Shows(kind, value),
        output="shown string",
        policy=Policy(ttl="1d"),
    )
    rows = []
    for second in range(2):
        rows += harness.batch([{"k": "a", "t": MOMENT + timedelta(seconds=second)}])
    assert rows[0] == rows[1]


def test_a_field_that_the_struct_does_not_have_is_an_error() -> None:
    harness = FunctionHarness(
        {"k": pa.string(), "t": pa.timestamp("us", "UTC")},
        key="k",
        event_time="t",
        function=Shows(STRUCT, {"at": MOMENT, "ta": 1}),
        output="shown string",
    )
    with pytest.raises(FunctionError, match="does not fit: it has no field ta"):
        harness.batch([{"k": "a", "t": MOMENT}])

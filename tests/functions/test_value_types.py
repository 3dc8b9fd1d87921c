"""Values of states are the same right after they were set and when they are read a batch later."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from idlestate import KeyedProcessFunction, Policy
from idlestate.backends.runs.python_values import column_of
from idlestate.errors import RefusedError
from idlestate.functions.errors import FunctionError
from idlestate.functions.state_values import fit_to
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


class Defaults(KeyedProcessFunction):
    """Shows the default with its first record, and stores it."""

    def __init__(self, kind: pa.DataType, default: Any) -> None:
        self.value = ValueStateDescriptor(name="value", value_type=kind, default=default)

    def process_element(self, row: Any, ctx: Any) -> Any:
        state = ctx.state(self.value)
        yield (repr(state.value()),)
        state.update(state.value())


@pytest.mark.parametrize("function", [Shows, Defaults])
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
def test_a_value_is_shown_alike_in_its_batch_and_in_the_next(
    function: Callable[[pa.DataType, Any], Shows | Defaults], kind: pa.DataType, value: Any
) -> None:
    harness = FunctionHarness(
        {"k": pa.string(), "t": pa.timestamp("us", "UTC")},
        key="k",
        event_time="t",
        function=function(kind, value),
        output="shown string",
        policy=Policy(ttl="1d"),
    )
    rows = []
    for second in range(2):
        rows += harness.batch([{"k": "a", "t": MOMENT + timedelta(seconds=second)}])
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 0.5),
        (pa.int64(), np.float32(0.5)),
        (pa.int64(), Decimal("0.5")),
        (pa.date32(), 0.5),
        (pa.timestamp("us", "UTC"), 0.5),
        (pa.struct([("n", pa.int64())]), {"n": 0.5}),
        (pa.list_(pa.int64()), [1, 0.5]),
        (pa.struct([("n", pa.list_(pa.int64()))]), {"n": [0.5]}),
        (pa.list_(pa.struct([("n", pa.int64())])), [{"n": 0.5}]),
    ],
    ids=str,
)
def test_a_value_whose_fraction_would_be_cut_off_is_an_error(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(RefusedError, match=r"0\.5'?\)* would become"):
        fit_to(kind, "state 'value'")(value)
    with pytest.raises(pa.ArrowInvalid, match=r"0\.5'?\)* would become"):
        column_of([None, value], kind)


def test_whole_numbers_fit_whatever_their_class() -> None:
    for value in (2.0, np.float32(2), Decimal(2), np.int64(2)):
        assert repr(fit_to(pa.int64(), "state 'value'")(value)) == "2"
        assert column_of([value], pa.int64()).to_pylist() == [2]


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

"""Timers of keys are read back as they were written."""

import struct

import pyarrow as pa
import pytest

from idlestate.functions.function_context import Timers
from idlestate.functions.timer_columns import timer_fields, timers_of


@pytest.mark.parametrize(
    "timers",
    [
        [],
        [{}],
        [{"quiet": 7}, {5: 5}, {"late": -1}],
        [{}, {"quiet": 7}, {}],
        [{"b": 3, "a": 3, 9: 9, 3: 3, "c": 1}, {}, {-4: -4, 2**61: 2**61}, {"a": 0}],
    ],
    ids=["no key", "no timer", "one each", "one or none", "several"],
)
def test_timers_are_read_back_in_order_of_time_and_name(timers: list[Timers]) -> None:
    names, times = timer_fields(timers)
    assert [names.type, times.type] == [pa.string(), pa.binary()]
    found = timers_of([names, times])
    assert found == [each or None for each in timers]
    for each, read in zip(timers, found, strict=True):
        assert list(read or {}) == sorted(each, key=lambda timer: (each[timer], _name(timer)))
    assert timers_of([names[1:], times[1:]]) == found[1:]


def test_columns_of_timers_hold_names_and_times_side_by_side() -> None:
    names, times = timer_fields([{}, {"b": 2, "a": 2, 1: 1}])
    assert names.to_pylist() == [None, "\x1fa\x1fb"]
    assert times.to_pylist() == [None, struct.pack("<3q", 1, 2, 2)]


def _name(timer: str | int) -> str:
    return timer if isinstance(timer, str) else ""

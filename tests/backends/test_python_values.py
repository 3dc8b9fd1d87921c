"""Columns as Python values: the first and the last times that Python has, and those beyond."""

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from idlestate.backends.runs.python_values import python_values
from idlestate.errors import RefusedError

FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
FIRST_DAY, LAST_DAY = -719_162, 2_932_896


def times(us: int, kind: pa.DataType) -> pa.Array:
    return pa.array([0, us, None], pa.int64()).cast(kind)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_are_known_from_year_1_to_9999(zone: str | None) -> None:
    kind, utc = pa.timestamp("us", zone), UTC if zone else None
    last = datetime.max.replace(tzinfo=utc)
    assert python_values(times(FIRST_US, kind))[1] == datetime.min.replace(tzinfo=utc)
    assert python_values(times(LAST_US, kind))[1:] == [last, None]
    days = pa.array([FIRST_DAY, LAST_DAY], pa.int32()).cast(pa.date32())
    assert python_values(days) == [date.min, date.max]


@pytest.mark.parametrize(
    "field",
    [
        times(LAST_US + 1, pa.timestamp("us", "UTC")),
        times(FIRST_US - 1, pa.timestamp("us")),
        pa.array([LAST_DAY + 1], pa.int32()).cast(pa.date32()),
        pa.array([[LAST_US + 1]], pa.list_(pa.timestamp("us"))),
        pa.StructArray.from_arrays([times(LAST_US + 1, pa.timestamp("us"))], ["at"]),
    ],
    ids=lambda field: str(field.type),
)
def test_a_time_that_python_has_not_is_refused_in_a_line(field: pa.Array) -> None:
    """Else a function would get a number, or fail in our code."""
    with pytest.raises(RefusedError, match="before year 1 or after year 9999") as refused:
        python_values(field)
    assert "\n" not in str(refused.value)

"""Instants: two forms, always UTC, as milliseconds since 1970."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.config.instants import parse_instant


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1970-01-01", 0),
        ("1970-01-02", 86_400_000),
        ("2015-09-12", 1_442_016_000_000),
        ("2015-09-12T06:30:00Z", 1_442_039_400_000),
        ("2015-09-12T06:30:00.123Z", 1_442_039_400_123),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_parse(text: str, expected_ms: int) -> None:
    assert parse_instant(text) == expected_ms


@given(st.datetimes(timezones=st.just(UTC)))
def test_milliseconds_survive(instant: datetime) -> None:
    instant = instant.replace(microsecond=instant.microsecond // 1000 * 1000)
    text = instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    expected = (instant - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000
    assert parse_instant(text) == round(expected)


@pytest.mark.parametrize(
    "text",
    [
        *("", "2015", "2015-9-12", "2015-13-01", "2015-02-30", "2015-09-12T06:30", "20150912"),
        *("2015-09-12T06:30:00", "2015-09-12T06:30:00+02:00", "2015-09-12 06:30:00Z"),
        *("2015-09-12\n", "2015-09-12T25:00:00Z", "1442016000000", "0000-01-01"),
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_instant(text)

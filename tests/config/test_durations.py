"""Durations: the grammar, its round trip, and what each usual mistake is told."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.retention.durations import (
    MAX_DURATION_MS,
    PATTERN,
    UNITS_MS,
    DurationError,
    format_duration,
    parse_duration,
)

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("0", 0),
        ("0s", 0),
        ("1ms", 1),
        ("500ms", 500),
        ("30s", 30 * SECOND),
        ("15m", 15 * MINUTE),
        ("12h", 12 * HOUR),
        ("7d", 7 * DAY),
        ("2w", 14 * DAY),
        ("1h30m", 90 * MINUTE),
        ("1w1d1h1m1s1ms", 8 * DAY + HOUR + MINUTE + SECOND + 1),
        ("5m500ms", 5 * MINUTE + 500),
        ("90m", 90 * MINUTE),
        ("007s", 7 * SECOND),
        ("36500d", MAX_DURATION_MS),
    ],
)
def test_parse(text: str, expected_ms: int) -> None:
    assert parse_duration(text) == expected_ms


@given(st.integers(0, MAX_DURATION_MS))
def test_what_is_formatted_is_read_back(span_ms: int) -> None:
    assert parse_duration(format_duration(span_ms)) == span_ms


@given(st.lists(st.none() | st.integers(0, 1_000), min_size=6, max_size=6))
def test_every_text_of_the_grammar_is_the_sum_of_its_parts(counts: list[int | None]) -> None:
    parts = [(n, unit) for n, unit in zip(counts, UNITS_MS, strict=True) if n is not None]
    text = "".join(f"{n}{unit}" for n, unit in parts)
    total_ms = sum(n * UNITS_MS[unit] for n, unit in parts)
    assert bool(re.search(PATTERN, text)) is bool(parts)
    if parts:
        assert parse_duration(text) == total_ms


@given(st.text(max_size=20) | st.from_regex(r"[0-9]{1,3}\.?[0-9]? ?[a-zA-Z]{0,8}", fullmatch=True))
def test_any_other_text_is_a_duration_error(text: str) -> None:
    if text == "0" or (re.search(PATTERN, text) and not text.endswith("\n")):
        assert parse_duration(text) >= 0
    else:
        with pytest.raises(DurationError):
            parse_duration(text)


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("30", '"30" has no unit', "add a unit: 30s, 30m or 30h"),
        ("1.5", '"1.5" has no unit', "add a unit: 30s, 30m or 30h"),
        ("30 minutes", '"30 minutes" is not a valid duration', "use 30m"),
        ("5min", '"5min" is not a valid duration', "use 5m"),
        ("10 Seconds", '"10 Seconds" is not a valid duration', "use 10s"),
        ("12H", '"12H" is not a valid duration', "use 12h"),
        ("30 m", '"30 m" is not a valid duration', "use 30m"),
        ("1.5h", '"1.5h" is not a valid duration', "use 1h30m"),
        ("1 hour, 30 minutes", '"1 hour, 30 minutes" is not a valid duration', "use 1h30m"),
        ("30m1h", '"30m1h" is not a valid duration', "use 1h30m"),
        ("1h1h", '"1h1h" is not a valid duration', "use 2h"),
        ("1:30", '"1:30" is not a valid duration', "use 1h30m or 1m30s"),
        ("1:30:15", '"1:30:15" is not a valid duration', "use 1h30m15s"),
        ("-5m", '"-5m" is negative', "use a duration such as 30s, 15m, 12h, 7d or 1h30m"),
        (
            "1M",
            '"1M": M is not a unit, as months and years vary in length (m means minutes)',
            "use days, such as 30d",
        ),
        (
            "2 years",
            '"2 years": years is not a unit, as months and years vary in length',
            "use days, such as 730d",
        ),
        ("5us", '"5us": us is too fine', "use whole ms, such as 500ms"),
        (
            "0.5ms",
            '"0.5ms" is not a valid duration',
            "use a duration such as 30s, 15m, 12h, 7d or 1h30m",
        ),
        (
            "soon",
            '"soon" is not a valid duration',
            "use a duration such as 30s, 15m, 12h, 7d or 1h30m",
        ),
        ("", '"" is not a valid duration', "use a duration such as 30s, 15m, 12h, 7d or 1h30m"),
        ("5m\n", '"5m\\n" is not a valid duration', "use 5m"),
        ("٣m", '"٣m" is not a valid duration', "use a duration such as 30s, 15m, 12h, 7d or 1h30m"),
        (
            "36500d1ms",
            '"36500d1ms" exceeds the maximum of 36500d',
            "use at most 36500d",
        ),
        *(
            (text, f'"{text}" exceeds the maximum of 36500d', "use at most 36500d")
            for text in ("9223372036854775807ms", "99999999999999999999999d", "40000 days")
        ),
    ],
)
def test_a_mistake_is_told_what_would_be_right(text: str, what: str, fix: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert (caught.value.what, caught.value.fix) == (what, fix)


@given(st.text(max_size=30))
def test_a_suggested_duration_is_one(text: str) -> None:
    try:
        parse_duration(text)
    except DurationError as error:
        if suggested := re.fullmatch(r"use ([0-9]\S*)", error.fix):
            parse_duration(suggested[1])

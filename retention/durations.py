"""Durations as files and arguments have them: `timedelta`, or text such as `500ms` or `1h30m`.

The text is whole numbers with units `w`, `d`, `h`, `m`, `s` and `ms`, from the largest unit to the
smallest, each unit at most once, nothing between them. `m` is minutes. Months and years are not
units, as they vary in length. A number without a unit is refused, because it could be seconds or
milliseconds.
"""

import re
from datetime import timedelta

from idlestate.errors import RefusedError
from idlestate.retention.shown_values import show

Duration = str | timedelta

UNITS_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
"""Milliseconds in each unit, the largest first."""

MAX_DURATION_MS = 36_500 * UNITS_MS["d"]
"""The longest duration, about a hundred years."""

PATTERN = "^(?=[0-9])" + "".join(f"([0-9]{{1,15}}{unit})?" for unit in UNITS_MS) + "$"
"""The grammar as a regular expression that JSON Schema understands too."""

EXAMPLES = "30s, 15m, 12h, 7d or 1h30m"

_GRAMMAR = re.compile(PATTERN.removesuffix("$"))
_OF_ANY_LENGTH = re.compile(_GRAMMAR.pattern.replace("{1,15}", "+"))
_BARE_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_PART = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,6}))?\s*([A-Za-zµ]{1,16})[\s,]*")
_CLOCK = re.compile(r"([0-9]{1,3}):([0-9]{2})(?::([0-9]{2}))?")

# Common spellings of our units. Words longer than a letter may be in any case.
_SPELLINGS = {
    "w": ("wk", "wks", "week", "weeks", "W"),
    "d": ("day", "days", "D"),
    "h": ("hr", "hrs", "hour", "hours", "H"),
    "m": ("min", "mins", "minute", "minutes"),
    "s": ("sec", "secs", "second", "seconds", "S"),
    "ms": ("msec", "msecs", "milli", "millis", "millisecond", "milliseconds", "MS", "Ms"),
}
_UNIT_OF = {word: unit for unit, words in _SPELLINGS.items() for word in (unit, *words)}
_NOT_FIXED = {"M", "mo", "mon", "month", "months", "y", "yr", "yrs", "year", "years"}
_TOO_FINE = {"us", "µs", "usec", "micros", "microseconds", "ns", "nanos", "nanoseconds"}


class DurationError(RefusedError, ValueError):
    """A text is not a valid duration: correct it as `fix` says."""

    def __init__(self, what: str, fix: str) -> None:
        """Take what is wrong and how to fix it."""
        self.what = what
        self.fix = fix
        super().__init__(f"{what}; {fix}")


def duration_ms(value: object) -> int:
    """Milliseconds of a `Duration`, 0 to `MAX_DURATION_MS`; the number 0 needs no unit.

    Raises:
        DurationError: it is neither valid text nor a `timedelta`, is negative or too long, or has
            fractions of a millisecond.
    """
    match value:
        case timedelta():
            span_ms, rest = divmod(value, timedelta(milliseconds=1))
            return parse_duration(f"{value / timedelta(milliseconds=1) if rest else span_ms}ms")
        case bool():
            pass
        case int() | float():
            if value:
                raise DurationError(f"{value} has no unit", unit_hint(str(value)))
            return 0
        case str():
            return parse_duration(value)
    raise DurationError(
        f"expected a duration, found {show(value)}", f"use a duration such as {EXAMPLES}"
    )


def duration_of(name: str, value: object) -> int:
    """Milliseconds of the `Duration` of a field or argument, which an error names.

    Raises:
        DurationError: see `duration_ms`.
    """
    try:
        return duration_ms(value)
    except DurationError as error:
        raise DurationError(f"{name}: {error.what}", error.fix) from error


def parse_duration(text: str) -> int:
    """Read a duration in milliseconds, 0 to `MAX_DURATION_MS`; a bare `0` is 0.

    Raises:
        DurationError: the text does not follow the grammar or is longer than the maximum.
    """
    if text == "0":
        return 0
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        has_long_part = _OF_ANY_LENGTH.fullmatch(text) and re.search("[1-9][0-9]{15}", text)
        raise _too_long(text) if has_long_part else _explain(text)
    total_ms = 0
    for part, (unit, unit_ms) in zip(match.groups(), UNITS_MS.items(), strict=True):
        if part is not None:
            total_ms += int(part.removesuffix(unit)) * unit_ms
    if total_ms > MAX_DURATION_MS:
        raise _too_long(text)
    return total_ms


def format_duration(span_ms: int) -> str:
    """Write a span (milliseconds, 0 or more) so that `parse_duration` reads it back.

    Days are the largest unit used: 14 days are `14d`, and 90 minutes `1h30m`.
    """
    if span_ms == 0:
        return "0s"
    text = ""
    for unit, unit_ms in UNITS_MS.items():
        if unit != "w":
            count, span_ms = divmod(span_ms, unit_ms)
            text += f"{count}{unit}" if count else ""
    return text


def unit_hint(number: str) -> str:
    """A hint for a number without a unit."""
    whole = number if number.isdecimal() else "30"
    return f"add a unit: {whole}s, {whole}m or {whole}h"


def _too_long(text: str) -> DurationError:
    longest = format_duration(MAX_DURATION_MS)
    return DurationError(f"{show(text)} exceeds the maximum of {longest}", f"use at most {longest}")


def _explain(text: str) -> DurationError:
    """Say why a text is not a valid duration, and what its author may have meant."""
    shown = show(text)
    if _BARE_NUMBER.fullmatch(text):
        return DurationError(f"{shown} has no unit", unit_hint(text))
    if text.startswith("-"):
        return DurationError(f"{shown} is negative", f"use a duration such as {EXAMPLES}")
    if clock := _CLOCK.fullmatch(text):
        first, second, third = clock.groups()
        meant = [f"{int(first)}h{int(second)}m" + (f"{int(third)}s" if third else "")]
        if third is None:
            meant.append(f"{int(first)}m{int(second)}s")
        return DurationError(f"{shown} is not a valid duration", f"use {' or '.join(meant)}")
    words = [word for _, _, word in _PART.findall(text)] if _is_parts(text) else []
    for word in words:
        if word in _NOT_FIXED or word.lower() in _NOT_FIXED:
            return DurationError(
                f"{shown}: {word} is not a unit, as months and years vary in length"
                + (" (m means minutes)" if word == "M" else ""),
                f"use days, such as {_in_days(text, word)}",
            )
        if word in _TOO_FINE:
            return DurationError(f"{shown}: {word} is too fine", "use whole ms, such as 500ms")
    meant_ms = _sum_of_parts(text) if words else None
    if meant_ms is not None and meant_ms > MAX_DURATION_MS:
        return _too_long(text)
    if meant_ms is not None:
        return DurationError(f"{shown} is not a valid duration", f"use {format_duration(meant_ms)}")
    return DurationError(f"{shown} is not a valid duration", f"use a duration such as {EXAMPLES}")


def _is_parts(text: str) -> bool:
    return len(text) <= 200 and re.fullmatch(f"(?:{_PART.pattern})+", text) is not None


def _in_days(text: str, word: str) -> str:
    parts = _PART.findall(text)
    per_unit = 365 if word.lower().startswith("y") else 30
    if len(parts) == 1 and 0 < int(parts[0][0]) <= 100 and not parts[0][1]:
        return f"{int(parts[0][0]) * per_unit}d"
    return f"{per_unit}d"


def _sum_of_parts(text: str) -> int | None:
    """Milliseconds of `1 hour 30 min` or `1.5h`; None with unknown words or parts of a ms."""
    total_ms = 0
    for whole, fraction, word in _PART.findall(text):
        unit = _UNIT_OF.get(word) or (_UNIT_OF.get(word.lower()) if len(word) > 1 else None)
        if unit is None:
            return None
        scale = 10 ** len(fraction)
        span_ms, rest = divmod(int(whole + fraction) * UNITS_MS[unit], scale)
        if rest:
            return None
        total_ms += span_ms
    return total_ms

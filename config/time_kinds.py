"""Kinds of values that are times: durations and instants, as int milliseconds."""

from functools import partial
from typing import Annotated, Any

from idlestate.config import instants
from idlestate.config.field_kinds import FieldKind, refuse
from idlestate.retention import durations
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.shown_values import show
from idlestate.retention.windows import WINDOW_PATTERN, WindowError, Windows, parse_window

AVAILABLE_NOW = "available_now"
FIRST_EVENT_TIME_MS = 86_400_000
"""1970-01-02: earlier event times come from clocks that were never set."""

_ENDLESS = {"never", "forever", "none", "infinite", "off"}


def _read_span(
    value: object, word: str = "", word_ms: int = 0, zero_fix: str = "", endless_fix: str = ""
) -> int:
    """Milliseconds of a duration.

    `word`, if given, means `word_ms`. The fixes name the replacement for a refused 0, and for
    words like `never` that are not allowed.
    """
    if word and value == word:
        return word_ms
    try:
        span_ms = durations.duration_ms(value)
    except durations.DurationError as error:
        fix = endless_fix if str(value).lower() in _ENDLESS else ""
        raise refuse(error.what, fix or error.fix) from error
    if span_ms == 0 and zero_fix:
        raise refuse("0 is not allowed here", zero_fix)
    return span_ms


def _span_schema(word: str = "", zero: bool = True) -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string", "pattern": durations.PATTERN}
    others: list[dict[str, Any]] = [{"const": word}] if word else []
    others += [{"const": 0}] if zero else []
    return {"anyOf": [text, *others]} if others else text


Span = Annotated[int, FieldKind(partial(_read_span, endless_fix="use 0 for none"), _span_schema())]
"""A duration in milliseconds, 0 allowed."""

IdleEdge = Annotated[
    int, FieldKind(partial(_read_span, endless_fix="use idle: never"), _span_schema())
]
"""One end of an idle window in milliseconds."""

PositiveSpan = Annotated[
    int,
    FieldKind(
        partial(_read_span, zero_fix="use at least 1ms, such as 1h"), _span_schema(zero=False)
    ),
]
"""A duration in milliseconds, above 0."""


def _read_between(value: object) -> tuple[int, int]:
    fix = 'use two durations, such as ["-30m", "1h"]'
    if not isinstance(value, list) or len(value) != 2:
        raise refuse(f"expected two durations, found {show(value)}", fix)
    low_ms, high_ms = map(_signed_ms, value)
    if low_ms > high_ms:
        raise refuse(f"{show(value[0])} is after {show(value[1])}", "swap them")
    return low_ms, high_ms


def _signed_ms(value: object) -> int:
    is_before = isinstance(value, str) and value.startswith("-")
    span_ms = _read_span(str(value)[1:] if is_before else value, endless_fix="remove between")
    return -span_ms if is_before else span_ms


_SIGNED = {"anyOf": [{"type": "string", "pattern": f"^-?{durations.PATTERN[1:]}"}, {"const": 0}]}
Between = Annotated[
    tuple[int, int],
    FieldKind(_read_between, {"type": "array", "items": _SIGNED, "minItems": 2, "maxItems": 2}),
]
"""The smallest and the largest distance of two times, in milliseconds; both may be negative."""

RuleSpan = Annotated[
    int,
    FieldKind(
        partial(
            _read_span,
            word="never",
            zero_fix="use never to turn the rule off, or a duration",
            endless_fix="use never",
        ),
        _span_schema("never", zero=False),
    ),
]
"""The duration of a rule in milliseconds; `never` gives 0, which is off."""

Memory = Annotated[
    int,
    FieldKind(
        partial(
            _read_span,
            word="forever",
            word_ms=FOREVER_MS,
            zero_fix="use a duration, or remove it",
            endless_fix="use forever, or remove it",
        ),
        _span_schema("forever", zero=False),
    ),
]
"""How long something is remembered, in milliseconds; `forever` gives `FOREVER_MS`."""


def read_idle_text(value: object) -> int:
    """Read an idle window that is written as one duration: its min in milliseconds.

    Raises:
        PydanticCustomError: it is not a duration, `never` or 0.
    """
    return _read_span(value, word="never", endless_fix="use never")


def _read_window(value: object) -> Windows:
    fix = "use tumbling(10m), hopping(10m, 1m), cumulate(1h, 1m) or session(30m)"
    if not isinstance(value, str):
        raise refuse(f"expected a window, found {show(value)}", fix)
    try:
        return parse_window(value)
    except WindowError as error:
        what, _, cure = str(error).rpartition("; ")
        raise refuse(what, cure) from error


Window = Annotated[Windows, FieldKind(_read_window, {"type": "string", "pattern": WINDOW_PATTERN})]
"""Windows, such as `hopping(10m, 1m)`."""

IdleText = Annotated[int, FieldKind(read_idle_text, _span_schema("never"))]
"""An idle window written as one duration, in milliseconds; `never` and 0 give 0, which is off."""


def _read_trigger(value: object) -> int | None:
    if value == AVAILABLE_NOW:
        return None
    fix = f"use {AVAILABLE_NOW}, or the time between batches, such as 10s"
    if isinstance(value, str) and not any(each.isdigit() for each in value):
        raise refuse(f"{show(value)} is not a valid trigger", fix)
    return _read_span(value, zero_fix=fix)


Trigger = Annotated[
    int | None,
    FieldKind(_read_trigger, {"anyOf": [{"const": AVAILABLE_NOW}, _span_schema(zero=False)]}),
]
"""Milliseconds from one batch to the next; None for `available_now`."""


def _read_first_event_time(value: object) -> int:
    fix = 'use a UTC date or time in quotes, such as "2015-09-12" or "2015-09-12T06:30:00Z"'
    if not isinstance(value, str):
        raise refuse(f"expected a date, found {show(value)}", fix)
    try:
        instant_ms = instants.parse_instant(value)
    except ValueError as error:
        raise refuse(f"{show(value)} is not a valid date", fix) from error
    if instant_ms < FIRST_EVENT_TIME_MS:
        what = (
            f"{show(value)} is before 1970-01-02; such times come from clocks that were never set"
        )
        raise refuse(what, 'use "1970-01-02" or later')
    return instant_ms


FirstEventTime = Annotated[
    int, FieldKind(_read_first_event_time, {"type": "string", "pattern": instants.PATTERN})
]
"""Milliseconds since 1970-01-01T00:00:00Z, from `FIRST_EVENT_TIME_MS` on."""

"""Spans of time in queries: '1 hour 30 minutes' as Spark reads it, or '1h30m'."""

import re

from sqlglot import exp

from idlestate.config.sql.words import Words
from idlestate.retention.durations import DurationError, duration_ms, format_duration

SPAN_FIX = "write a string such as '10 minutes'"
_UNITS = {"week": "w", "day": "d", "hour": "h", "minute": "m", "second": "s", "millisecond": "ms"}
_SPAN = re.compile(rf"\s*(\d{{1,15}})\s*({'|'.join(_UNITS)})s?\s*", re.IGNORECASE)


def interval_text(tree: object) -> str | None:
    """The text of `INTERVAL '5' MINUTE` or `INTERVAL '5 minutes'`; None for anything else."""
    text = tree.this if isinstance(tree, exp.Interval) else None
    unit = tree.args.get("unit") if isinstance(tree, exp.Interval) else None
    if not isinstance(text, exp.Literal) or isinstance(unit, exp.IntervalSpan):
        return None
    return f"{text.name} {unit.name}" if unit else str(text.name)


def read_span(text: str, words: Words) -> str:
    """The span as `parse_duration` reads it.

    Args:
        text: the span.
        words: the words with the span.

    Raises:
        QueryError: it is not a span of time.
    """
    parts, at = 0, 0
    while found := _SPAN.match(text, at):
        parts += int(found[1]) * duration_ms(f"1{_UNITS[found[2].lower()]}")
        at = found.end()
    try:
        return format_duration(parts if at == len(text) else duration_ms(text))
    except DurationError as error:
        raise words.refused(error.what, SPAN_FIX) from error

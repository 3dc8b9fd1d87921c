"""Spans and sizes as people read them; `durations.py` writes spans that files accept."""

from collections.abc import Iterator

_UNITS_MS = {
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1_000,
    "millisecond": 1,
}


def span_in_words(span_ms: int, most_units: int = 5) -> str:
    """A span such as `1 hour 30 minutes`.

    Args:
        span_ms: the span in milliseconds, 0 or more.
        most_units: the most units that it is written in; what they cannot express is dropped.
    """
    return " ".join(list(_parts(span_ms))[:most_units]) or "0 seconds"


def in_bytes(count: float) -> str:
    """A number of bytes with its unit."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def _parts(span_ms: int) -> Iterator[str]:
    for unit, unit_ms in _UNITS_MS.items():
        count, span_ms = divmod(span_ms, unit_ms)
        if count:
            yield f"{count:,} {unit}" + ("s" if count > 1 else "")

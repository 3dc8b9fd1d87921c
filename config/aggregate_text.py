"""The text of an aggregate: `count`, `max(event_time)`, `max_by(page, event_time)`."""

import re
from dataclasses import dataclass

from idlestate.errors import RefusedError

FUNCTIONS = ("count", "sum", "min", "max", "avg", "first", "last", "min_by", "max_by")
_CALL = re.compile(r"\s*(\w+)\s*(?:\(\s*(.*?)\s*\))?\s*")
_PLAIN = re.compile(r"[^\s,()`]+")
_NAME = re.compile(rf"`[^`]+`|{_PLAIN.pattern}")


class AggregateError(RefusedError, ValueError):
    """An aggregate cannot be computed as written: correct it in the pipeline's `aggregates`."""


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed aggregate: function and column names."""

    function: str
    columns: tuple[str, ...]

    def of(self, columns: tuple[str, ...]) -> str:
        """The text of the same function of other columns."""
        quoted = (each if _PLAIN.fullmatch(each) else f"`{each}`" for each in columns)
        return f"{self.function}({', '.join(quoted)})" if columns else self.function


def parse_call(text: str) -> Call:
    """Parse `count`, `count(*)`, `sum(col)`, `min_by(col, by)`; back-quotes guard odd names.

    Raises:
        AggregateError: the text is none of these.
    """
    match = _CALL.fullmatch(text)
    function = match[1].lower() if match else ""
    if match is None or function not in FUNCTIONS:
        raise AggregateError(f"unknown aggregate {text!r}: the aggregates are {_spellings()}")
    inner = match[2]
    columns = () if inner in (None, "", "*") else tuple(part.strip() for part in inner.split(","))
    if any(not _NAME.fullmatch(column) for column in columns):
        raise AggregateError(f"{text!r} takes column names only: the aggregates are {_spellings()}")
    wanted = {"count": (0, 1), "min_by": (2,), "max_by": (2,)}.get(function, (1,))
    if len(columns) not in wanted or (inner == "*" and function != "count"):
        raise AggregateError(
            f"{text!r} has the wrong number of columns: the aggregates are {_spellings()}"
        )
    return Call(function, tuple(column.strip("`") for column in columns))


def _spellings() -> str:
    pairs = {"count": "count, count(col)", "min_by": "min_by(col, by)", "max_by": "max_by(col, by)"}
    return ", ".join(pairs.get(name, f"{name}(col)") for name in FUNCTIONS)


def problem_with(text: str) -> str | None:
    """What is wrong with the text of an aggregate; None when nothing is."""
    try:
        parse_call(text)
    except AggregateError as error:
        return str(error)
    return None

"""The text of an aggregate: `count`, `max(event_time)`, `max_by(page, event_time)`."""

import re
from dataclasses import dataclass

from idlestate.errors import RefusedError

_FORMS: dict[str, tuple[str, ...]] = {
    "count": ("", "col"),
    **dict.fromkeys(("sum", "min", "max", "avg", "first", "last"), ("col",)),
    **dict.fromkeys(("min_by", "max_by"), ("col, by",)),
    **dict.fromkeys(("bool_and", "bool_or"), ("col",)),
    **dict.fromkeys(("stddev", "stddev_pop", "variance", "var_pop"), ("col",)),
}
"""The arguments of each function: names of columns."""
_SAME = {"stddev_samp": "stddev", "var_samp": "variance"}
"""Other names of functions, as in Spark."""
FUNCTIONS = (*_FORMS, *_SAME)
_CALL = re.compile(r"\s*(\w+)\s*(?:\(\s*(.*?)\s*\))?\s*")
_PLAIN = re.compile(r"[^\s,()`]+")
_NAME = re.compile(rf"`[^`]+`|{_PLAIN.pattern}")
_COMMA = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")  # not between back-quotes


class AggregateError(RefusedError, ValueError):
    """An aggregate cannot be computed as written: correct it in the pipeline's `aggregates`."""


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed aggregate: function and column names."""

    function: str
    columns: tuple[str, ...]

    def of(self, columns: tuple[str, ...]) -> str:
        """The text of the same function with other columns."""
        quoted = (each if _PLAIN.fullmatch(each) else f"`{each}`" for each in columns)
        return f"{self.function}({', '.join(quoted)})" if columns else self.function


def parse_call(text: str) -> Call:
    """Parse `count`, `count(*)`, `sum(col)`, `min_by(col, by)`; back-quotes guard odd names.

    Raises:
        AggregateError: the text is none of these.
    """
    match = _CALL.fullmatch(text)
    function = match[1].lower() if match else ""
    function = _SAME.get(function, function)
    if match is None or function not in _FORMS:
        raise AggregateError(f"unknown aggregate {text!r}: the aggregates are {', '.join(_FORMS)}")
    inner = match[2]
    is_of_rows = inner in (None, "") or (inner == "*" and function == "count")
    columns = () if is_of_rows else tuple(part.strip() for part in _COMMA.split(inner))
    fits = len(columns) in {len(form.split(",")) if form else 0 for form in _FORMS[function]}
    if not fits or any(not _NAME.fullmatch(column) for column in columns):
        raise AggregateError(
            f"{text!r} is not valid: use {' or '.join(_spelled(function))} with names of columns"
        )
    return Call(function, tuple(column.strip("`") for column in columns))


def _spelled(function: str) -> list[str]:
    return [f"{function}({form})" if form else function for form in _FORMS[function]]


def problem_with(text: str) -> str | None:
    """What is wrong with the text of an aggregate; None when nothing is."""
    try:
        parse_call(text)
    except AggregateError as error:
        return str(error)
    return None

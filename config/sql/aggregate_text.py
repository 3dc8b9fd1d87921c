"""The text of an aggregate: `count`, `max(event_time)`, `approx_percentile(price, 0.95)`."""

import re
from dataclasses import dataclass

from idlestate.config.sql.quoting import quoted, unquoted
from idlestate.errors import RefusedError


@dataclass(frozen=True, slots=True)
class _Number:
    """A numeric argument of a function."""

    least: float
    most: float
    default: float | None = None
    is_whole: bool = True

    def read(self, text: str) -> float | None:
        """The number; None if it is not allowed."""
        try:
            value = int(text) if self.is_whole else float(text)
        except ValueError:
            return None
        return value if self.least <= value <= self.most else None


_FORMS: dict[str, tuple[str, ...]] = {
    "count": ("", "col"),
    **dict.fromkeys(("sum", "min", "max", "avg", "first", "last"), ("col",)),
    **dict.fromkeys(("min_by", "max_by"), ("col, by",)),
    **dict.fromkeys(("bool_and", "bool_or"), ("col",)),
    **dict.fromkeys(("stddev", "stddev_pop", "variance", "var_pop"), ("col",)),
    "approx_percentile": ("col, p", "col, p, accuracy"),
    "approx_count_distinct": ("col", "col, rsd"),
    "count_distinct": ("col", "col, cap"),
    **dict.fromkeys(("collect_list", "collect_set"), ("col, n",)),
    "top_n": ("col, n", "col, n, by"),
}
"""The arguments of each function: `col` and `by` are columns, others are numbers."""
_NUMBERS = {
    "p": _Number(0, 1, is_whole=False),
    "accuracy": _Number(1, 1_000_000, default=100),
    "rsd": _Number(0.005, 0.39, default=0.05, is_whole=False),
    "cap": _Number(1, 100_000, default=1000),
    "n": _Number(1, 1000),
}
_SAME = {
    "stddev_samp": "stddev",
    "var_samp": "variance",
    "percentile_approx": "approx_percentile",
}
"""Other names of functions, as in Spark."""
FUNCTIONS = (*_FORMS, *_SAME)
MOST_ROWS = 100_000
"""The maximum number of rows in a frame of `over`."""
_DISTINCT = re.compile(r"distinct\s+(.*)", re.IGNORECASE)
_CALL = re.compile(r"\s*(\w+)\s*(?:\(\s*(.*?)\s*\))?\s*")
_OWN = re.compile(r"\s*([\w.]+:[\w.<>]+)\s*\(\s*(.*?)\s*\)\s*")
_PLAIN = re.compile(r"[^\s,()`*]+")
_NAME = re.compile(rf"`(?:[^`]|``)+`|{_PLAIN.pattern}")
_COMMA = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")  # not between back-quotes


class AggregateError(RefusedError, ValueError):
    """An aggregate cannot be computed as written: correct it in the pipeline's `aggregates`."""


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed aggregate: function, column names, and its numbers, including defaults."""

    function: str
    columns: tuple[str, ...]
    numbers: tuple[float, ...] = ()
    is_own: bool = False
    """Whether the function is a user's class, `package.module:Class`."""

    def of(self, columns: tuple[str, ...]) -> str:
        """The text of this function with other columns."""
        names = [each if _PLAIN.fullmatch(each) else quoted(each) for each in columns]
        inner = [*names[:1], *map(repr, self.numbers), *names[1:]]
        return _written(self.function, ", ".join(inner)) + "()" * (self.is_own and not inner)


def parse_call(text: str) -> Call:
    """Parse `count`, `sum(col)`, `top_n(col, 3, by)` or `package.module:Class(col)` of a user's;
    back-quotes guard odd names.

    Raises:
        AggregateError: the text is none of these.
    """
    if own := _OWN.fullmatch(text):
        columns = tuple(part.strip() for part in _COMMA.split(own[2])) if own[2] else ()
        if any(not _NAME.fullmatch(column) for column in columns):
            raise AggregateError(f"{text!r} is not valid: an accumulator takes names of columns")
        return Call(own[1], tuple(map(unquoted, columns)), is_own=True)
    match = _CALL.fullmatch(text)
    function = match[1].lower() if match else ""
    function, inner = _SAME.get(function, function), (match and match[2]) or ""
    if function == "count" and (distinct := _DISTINCT.fullmatch(inner)):
        function, inner = "count_distinct", distinct[1]
    if match is None or function not in _FORMS:
        raise AggregateError(f"unknown aggregate {text!r}: the aggregates are {', '.join(_FORMS)}")
    is_of_rows = not inner or (inner == "*" and function == "count")
    given = [] if is_of_rows else [part.strip() for part in _COMMA.split(inner)]
    forms = [form.split(", ") if form else [] for form in _FORMS[function]]
    fitting = next((form for form in forms if len(form) == len(given)), None)
    if fitting is None:
        raise _invalid(text, function)
    names, numbers = [], {}
    for part, value in zip(fitting, given, strict=True):
        if part not in _NUMBERS:
            names.append(unquoted(value))
            valid = _NAME.fullmatch(value) is not None
        else:
            numbers[part] = _NUMBERS[part].read(value)
            valid = numbers[part] is not None
        if not valid:
            raise _invalid(text, function)
    wanted = [part for part in forms[-1] if part in _NUMBERS]
    filled = tuple(numbers.get(part) or _NUMBERS[part].default or 0 for part in wanted)
    return Call(function, tuple(names), filled)


def _written(function: str, inner: str) -> str:
    if function == "count_distinct":
        return f"count(distinct {inner})"
    return f"{function}({inner})" if inner else function


def _invalid(text: str, function: str) -> AggregateError:
    forms = _FORMS[function]
    spelled = " or ".join(_written(function, form) for form in forms)
    fix = f"use {spelled} with names of columns"
    for part in forms[-1].split(", "):
        if number := _NUMBERS.get(part):
            kind = "a whole number" if number.is_whole else "a number"
            fix += f"; {part} is {kind} from {number.least} to {number.most}"
    return AggregateError(f"{text!r} is not valid: {fix}")


def problem_with(text: str) -> str | None:
    """The problem with the text of an aggregate; None if there is none."""
    try:
        parse_call(text)
    except AggregateError as error:
        return str(error)
    return None

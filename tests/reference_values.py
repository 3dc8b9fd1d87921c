"""The reference's aggregates: one value at a time, in exact arithmetic.

Values are plain Python: int, float, Decimal, str, bytes, bool, date or datetime, None for null.
Averages come back as `Fraction`, so that whoever compares rounds once, at the type in question.
"""

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

BEYOND_SQUARES = 10**300
"""Variances above this are not tested: the squares leave the range of doubles."""
Values = Mapping[str, Any]
Moment = tuple[Any, ...]
"""What `first` and `last` compare: the event time in ms, then the ranked order columns."""


class Accumulator(Protocol):
    """One aggregate of one life."""

    def add(self, moment: Moment, values: Values) -> None:
        """Take in one write."""

    def result(self) -> Any:
        """The aggregate over the writes so far."""


def rank(value: Any) -> tuple[int, Any]:
    """What to compare instead of the value: nulls first, NaN above every number."""
    if value is None:
        return (0, 0)
    if isinstance(value, float) and math.isnan(value):
        return (2, 0)
    return (1, value)


class Count:
    def __init__(self, column: str | None) -> None:
        self.column = column
        self.n = 0

    def add(self, moment: Moment, values: Values) -> None:
        if self.column is None or values[self.column] is not None:
            self.n += 1

    def result(self) -> int:
        return self.n


class Sum:
    """Sum or average; exact, also of floats as long as all are finite."""

    def __init__(self, column: str, *, average: bool) -> None:
        self.column = column
        self.average = average
        self.n = 0
        self.total: Any = 0
        self.not_finite: float | None = None
        self.kind: type = int

    def add(self, moment: Moment, values: Values) -> None:
        value = values[self.column]
        if value is None:
            return
        self.n += 1
        self.kind = type(value)
        if isinstance(value, float) and not math.isfinite(value):
            self.not_finite = value if self.not_finite is None else self.not_finite + value
        else:
            self.total += value if type(value) is int else Fraction(value)

    def result(self) -> Any:
        if not self.n:
            return None
        if self.not_finite is not None:
            return self.not_finite
        if self.average:
            found = Fraction(self.total) / self.n
            return float(found) if self.kind is float else found
        if self.kind is float:
            return float(self.total)
        if self.kind is Decimal:
            return Fraction(self.total)
        return self.total


class Variance:
    """Variance or standard deviation of the values as doubles; exact up to the last step."""

    def __init__(self, column: str, name: str) -> None:
        self.column = column
        self.is_sample = not name.endswith("_pop")
        self.is_deviation = name.startswith("stddev")
        self.values: list[float] = []

    def add(self, moment: Moment, values: Values) -> None:
        if values[self.column] is not None:
            self.values.append(float(values[self.column]))

    def result(self) -> float | None:
        divisor = len(self.values) - self.is_sample
        if divisor < 1:
            return None
        if not all(map(math.isfinite, self.values)):
            return math.nan
        exact = list(map(Fraction, self.values))
        mean = sum(exact) / len(exact)
        found = sum((value - mean) ** 2 for value in exact) / divisor
        if found > BEYOND_SQUARES:
            return math.nan
        # Ahead of the root, which is of doubles, so many digits are enough.
        return math.sqrt(found) if self.is_deviation else float(found)


class Extreme:
    """The value whose rank is smallest or largest; the kind of rank is the aggregate's."""

    def __init__(
        self, value_of: str, rank_of: Callable[[Moment, Values], Any], *, largest: bool
    ) -> None:
        self.value_of = value_of
        self.rank_of = rank_of
        self.largest = largest
        self.best: Any = None
        self.value: Any = None

    def add(self, moment: Moment, values: Values) -> None:
        ranked = self.rank_of(moment, values)
        if ranked is None:
            return
        if self.best is None or (ranked > self.best if self.largest else ranked < self.best):
            self.best, self.value = ranked, values[self.value_of]

    def result(self) -> Any:
        return self.value


def accumulator(text: str) -> Accumulator:
    """A fresh accumulator for an aggregate as users write it: `count`, `max_by(a, b)`."""
    parsed = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*(\w+)\s*(?:,\s*(\w+)\s*)?\))?\s*", text)
    if parsed is None:
        raise ValueError(f"no aggregate: {text!r}")
    name, one, two = parsed.groups()
    match name:
        case "count":
            return Count(one)
        case "sum" | "avg":
            return Sum(one, average=name == "avg")
        case "stddev" | "stddev_samp" | "stddev_pop" | "variance" | "var_samp" | "var_pop":
            return Variance(one, name)
        case "min" | "max" | "bool_and" | "bool_or":
            return Extreme(
                one,
                lambda _, values: None if values[one] is None else rank(values[one]),
                largest=name in ("max", "bool_or"),
            )
        case "first" | "last":
            return Extreme(
                one, lambda moment, values: (*moment, rank(values[one])), largest=name == "last"
            )
        case "min_by" | "max_by":
            return Extreme(
                one,
                lambda _, values: (
                    None if values[two] is None else (rank(values[two]), rank(values[one]))
                ),
                largest=name == "max_by",
            )
    raise ValueError(f"no aggregate: {text!r}")

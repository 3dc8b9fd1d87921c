"""The reference's aggregates: one value at a time, in exact arithmetic.

Values are plain Python: int, float, Decimal, str, bytes, bool, date or datetime, None for null.
Averages come back as `Fraction`, so that whoever compares rounds once, at the type in question;
estimates as `Within`.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Within:
    """A number that may be anything between two."""

    least: float
    most: float


class ApproxPercentile:
    """The middle of the bin of the value at its rank; bins are cut off doubles, as documented."""

    def __init__(self, column: str, p: float, accuracy: int) -> None:
        self.column, self.p = column, p
        self.bits = max(0, math.ceil(math.log2(accuracy)) - 1)
        self.values: list[float] = []
        self.kind: type = float

    def add(self, moment: Moment, values: Values) -> None:
        if values[self.column] is not None:
            self.kind = type(values[self.column])
            self.values.append(float(values[self.column]))

    def result(self) -> Any:
        if not self.values:
            return None
        at = max(1, math.ceil(self.p * len(self.values)))
        value = sorted(self.values, key=rank)[at - 1]
        if not math.isfinite(value):
            return value
        share, exponent = math.frexp(abs(value))
        step = math.floor(share * 2 ** (self.bits + 1))
        low, middle, high = (
            math.copysign(math.ldexp(step + part, exponent - self.bits - 1), value)
            if value
            else 0.0
            for part in (0, 0.5, 1)
        )
        if self.kind is int:  # what is towards zero, or the last value that its type has
            return Within(min(low, high), max(low, high)) if abs(value) > 127 else int(middle)
        return middle


class ApproxDistinct:
    """Within four standard errors of the exact number."""

    def __init__(self, column: str, rsd: float) -> None:
        self.column, self.rsd = column, rsd
        self.values: set[Any] = set()

    def add(self, moment: Moment, values: Values) -> None:
        if values[self.column] is not None:
            self.values.add(rank(values[self.column]))

    def result(self) -> Within:
        count = len(self.values)
        off = math.ceil(4 * self.rsd * count)
        return Within(count - off, count + off)


class Distinct:
    """How many different values there are, None for more than the cap."""

    def __init__(self, column: str, cap: int) -> None:
        self.column, self.cap = column, cap
        self.values: set[Any] = set()

    def add(self, moment: Moment, values: Values) -> None:
        if values[self.column] is not None:
            self.values.add(rank(values[self.column]))

    def result(self) -> int | None:
        return len(self.values) if len(self.values) <= self.cap else None


class Collected:
    """Some values in an order: all are kept here, and sorted in the end."""

    def __init__(self, name: str, column: str, limit: int, by: str | None) -> None:
        self.name, self.column, self.limit, self.by = name, column, limit, by
        self.items: list[tuple[Any, Any]] = []

    def add(self, moment: Moment, values: Values) -> None:
        value = values[self.column]
        if values[self.by or self.column] is None:
            return
        if self.name == "top_n":
            place = (rank(values[self.by or self.column]), rank(value))
        else:
            place = (*moment, rank(value))
        self.items.append((place, value))

    def result(self) -> list[Any]:
        found: list[Any] = []
        seen: set[Any] = set()
        for _, value in sorted(self.items, key=lambda item: item[0], reverse=self.name == "top_n"):
            if self.name != "collect_set" or rank(value) not in seen:
                found.append(value)
                seen.add(rank(value))
        return found[: self.limit]


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
    parsed = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text)
    if parsed is None:
        raise ValueError(f"no aggregate: {text!r}")
    name, inner = parsed[1], parsed[2] or ""
    if inner.startswith("distinct "):
        name, inner = "count_distinct", inner.removeprefix("distinct ")
    given = [part.strip() for part in inner.split(",")] if inner else []
    one, two, three = (*given, None, None, None)[:3]
    match name:
        case "count":
            return Count(one)
        case "sum" | "avg":
            return Sum(one, average=name == "avg")
        case "stddev" | "stddev_samp" | "stddev_pop" | "variance" | "var_samp" | "var_pop":
            return Variance(one, name)
        case "approx_percentile":
            return ApproxPercentile(one, float(two), int(three or 100))
        case "approx_count_distinct":
            return ApproxDistinct(one, float(two or 0.05))
        case "count_distinct":
            return Distinct(one, int(two or 1000))
        case "collect_list" | "collect_set" | "top_n":
            return Collected(name, one, int(two), three)
    if found := _extreme(name, one, two):
        return found
    raise ValueError(f"no aggregate: {text!r}")


def _extreme(name: str, one: str, two: str) -> Accumulator | None:
    match name:
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
    return None

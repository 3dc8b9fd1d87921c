"""The arguments of `retain`, converted for the operator.

Columns may be passed by name (in any case if the session ignores case) or as columns of Spark,
durations as text or `timedelta`. Anything else is refused with a hint what to pass.
"""

import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column

from idlestate.backends.shards.accumulator import Accumulator
from idlestate.backends.shards.own_accumulator import reference_of
from idlestate.config.instants import parse_instant
from idlestate.config.sql.aggregate_text import AggregateError, Call, parse_call
from idlestate.errors import RefusedError
from idlestate.retention.durations import DurationError, duration_ms

ColumnArgument = str | Column

DAY_MS = 86_400_000
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_NAMED = re.compile(r"(.+) AS (.+)", re.DOTALL | re.IGNORECASE)
_IN_ORDER = re.compile(r"(first|last)\((.*), false\)", re.DOTALL)
_EVERY_ROW = ("count(1)", "count(*)")


class Arguments:
    """Reads the arguments of one operator."""

    def __init__(self, uid: object, names: Sequence[str], *, ignores_case: bool) -> None:
        """Take the operator's name, with which every error starts, and the input's column names.

        Raises:
            RefusedError: the name is not valid.
        """
        if not isinstance(uid, str) or not _UID.fullmatch(uid):
            raise RefusedError(
                f"uid {uid!r} is not valid: use at most 63 letters, digits, '.', '_' and '-', "
                "starting with a letter or digit"
            )
        self._uid = uid
        self._names = names
        self._ignores_case = ignores_case

    def among(self, names: Sequence[str]) -> "Arguments":
        """The same for an input with other columns."""
        return Arguments(self._uid, names, ignores_case=self._ignores_case)

    def refused(self, what: str, about: str | None = None) -> RefusedError:
        """An error of this operator, and the column, aggregate or argument that it is about."""
        return RefusedError(f"operator {self._uid!r}: {what}", about=about)

    def must_be(
        self, argument: str, value: object, kinds: type | tuple[type, ...], fix: str
    ) -> None:
        """Refuse a value of another type.

        Raises:
            RefusedError: it has another type; a bool is not an int.
        """
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is int):
            raise self._odd(argument, value, fix)

    def column(self, argument: str, value: object) -> str:
        """The input's name of a column; an unknown name is returned unchanged.

        Raises:
            RefusedError: it is neither a name nor a column, or it is an expression.
        """
        if isinstance(value, str):
            return self._resolved(value)
        if not isinstance(value, Column):
            raise self._odd(argument, value, "pass the name of a column or a column")
        name = self._resolved(_text(value).strip("`"))
        if name not in self._names:
            raise self.refused(
                f"{argument}: {name} is not a column of the input; add it with withColumn first "
                "and pass its name"
            )
        return name

    def columns(self, argument: str, value: object) -> tuple[str, ...]:
        """The names of one or several columns.

        Raises:
            RefusedError: see `column`.
        """
        if isinstance(value, str | Column):
            return (self.column(argument, value),)
        if not isinstance(value, Sequence):
            raise self._odd(argument, value, "pass a column name, a column, or a list of them")
        return tuple(self.column(argument, each) for each in value)

    def aggregates(self, value: object) -> dict[str, str]:
        """Result name to aggregate, as `bind` expects them.

        Raises:
            RefusedError: it is neither a mapping nor a list of named columns.
        """
        if isinstance(value, Mapping):
            return {name: self._aggregate(name, each) for name, each in value.items()}
        listed = [value] if isinstance(value, Column) else value
        fix = "pass {'n': 'count'}, or columns with a name such as F.count('*').alias('n')"
        if isinstance(listed, str) or not isinstance(listed, Sequence):
            raise self._odd("aggregates", value, fix)
        found: dict[str, str] = {}
        for each in listed:
            name = _parts(each)[1] if isinstance(each, Column) else ""
            if not name:
                raise self._odd("aggregates", each, fix)
            if name in found:
                raise self.refused(f"aggregates: the name {name} is used twice; choose another")
            found[name] = self._aggregate(name, each)
        return found

    def _aggregate(self, name: object, value: object) -> str:
        fix = (
            "pass a string, as in {'total': 'sum(price)'}, a function of Spark's, or an Accumulator"
        )
        self.must_be("aggregates", name, str, fix)
        self.must_be(f"aggregates: {name}", value, (str, Column, Accumulator), fix)
        if isinstance(value, Accumulator):
            text = Call(reference_of(value), value.columns, is_own=True).of(value.columns)
        else:
            text = _parts(value)[0] if isinstance(value, Column) else str(value)
        try:
            call = parse_call(text)
        except AggregateError as error:
            raise self.refused(str(error)) from error
        columns = tuple(self._resolved(column) for column in call.columns)
        return text if columns == call.columns else call.of(columns)

    def span_ms(self, argument: str, value: object) -> int:
        """A duration in milliseconds.

        Raises:
            RefusedError: it is not a duration.
        """
        try:
            return duration_ms(value)
        except DurationError as error:
            raise self.refused(f"{argument}: {error}") from error

    def instant_ms(self, argument: str, value: object) -> int:
        """A UTC date or time, in milliseconds since 1970-01-01; 1970-01-02 is the earliest.

        Raises:
            RefusedError: it is neither, or earlier.
        """
        fix = "use 2015-09-12 or 2015-09-12T06:30:00Z"
        self.must_be(argument, value, str, fix)
        try:
            instant_ms = parse_instant(str(value))
        except ValueError as error:
            raise self.refused(f"{argument} {value!r} is {error}; {fix}") from error
        if instant_ms < DAY_MS:
            raise self.refused(
                f"{argument} {value} is before 1970-01-02; Spark's watermark cannot be below 0, "
                "so earlier events would wrongly count as late"
            )
        return instant_ms

    def _resolved(self, name: str) -> str:
        if name in self._names or not self._ignores_case:
            return name
        same = [each for each in self._names if each.lower() == name.lower()]
        return same[0] if len(same) == 1 else name

    def _odd(self, argument: str, value: object, fix: str) -> RefusedError:
        shown = _text(value) if isinstance(value, Column) else reprlib.repr(value)
        return self.refused(f"{argument}: {shown} cannot be used here; {fix}")


def _parts(column: Column) -> tuple[str, str]:
    """A Spark aggregate as text for `parse_call`, and its alias."""
    named = _NAMED.fullmatch(_text(column))
    text, name = named.groups() if named else (_text(column), "")
    if in_order := _IN_ORDER.fullmatch(text):  # false: nulls count
        text = f"{in_order[1]}({in_order[2]})"
    if _is_distinct(column):  # which its text does not say
        text = text.replace("(", "(distinct ", 1)
    return "count" if text in _EVERY_ROW else text, name.strip("`")


def _is_distinct(column: Column) -> bool:
    java: Any = column._jc  # noqa: SLF001 - Spark's own tree
    node = java.node()
    while node.getClass().getSimpleName() == "Alias":
        node = node.child()
    return bool(node.getClass().getSimpleName() == "UnresolvedFunction" and node.isDistinct())


def _text(column: Column) -> str:
    """A column as Spark writes it: `a`, `count(1) AS n`."""
    return str(column).removeprefix("Column<'").removesuffix("'>")

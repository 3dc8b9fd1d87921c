"""Aggregates inside expressions: their calls, and the columns that they aggregate."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokens import TokenType

from idlestate.config.sql.aggregate_text import FUNCTIONS, Call, problem_with
from idlestate.config.sql.expressions import Expression, read_expression
from idlestate.config.sql.words import Words

_OTHER_NAMES = {
    "mean": "avg",
    "first_value": "first",
    "last_value": "last",
    "any_value": "first",
    "every": "bool_and",
    "some": "bool_or",
    "std": "stddev",
}
_COUNT_IF = "count_if"
_NAMES = {**{name: name for name in FUNCTIONS}, **_OTHER_NAMES, _COUNT_IF: "count"}
_NOT_FILTERED = {"first", "last", "collect_list", "collect_set", "top_n"}


@dataclass(frozen=True, slots=True)
class Argument:
    """What an aggregate aggregates: a column, or an expression to be computed first.

    Attributes:
        column: the column; for an expression, the column that it is computed as.
        expression: its text; None for a column of the input.
    """

    column: str
    expression: str | None


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregate.

    Attributes:
        start, end: the range of its words in the expression.
        words: these words.
        function: its name in `retain`.
        arguments: what it aggregates; empty for all rows.
        numbers: its numbers, such as the share of a percentile.
    """

    start: int
    end: int
    words: Words
    function: str
    arguments: tuple[Argument, ...]
    numbers: tuple[float, ...]

    @property
    def text(self) -> str:
        """The aggregate in the notation of `retain`."""
        columns = tuple(each.column for each in self.arguments)
        return Call(self.function, columns, self.numbers).of(columns)

    @property
    def name(self) -> str:
        """The default name of its column, as in Spark."""
        return "count(1)" if self.text == "count" else self.text.replace("`", "")


def aggregate_calls(words: Words, qualifiers: frozenset[str]) -> Iterator[AggregateCall]:
    """The aggregate calls in an expression, in order.

    Raises:
        QueryError: one cannot be computed.
    """
    at = 0
    while at + 1 < len(words):
        name = words.words[at].folded
        if name in _NAMES and words.words[at + 1].kind is TokenType.L_PAREN:
            call = _call(words, at, qualifiers)
            yield call
            at = call.end
        else:
            at += 1


def _call(words: Words, start: int, qualifiers: frozenset[str]) -> AggregateCall:
    closing = words.closing(start + 1)
    written = words.words[start].folded
    function = _NAMES[written]
    inside = words[start + 2 : closing]
    _check_nulls(inside, len(inside) - 2)
    condition, end = _filter(words, closing + 1)
    _check_behind(words, end, written)
    if inside.words and inside.words[0].kind is TokenType.DISTINCT:
        if function != "count":
            raise inside[:1].refused(f"{written} of DISTINCT values is not supported", "remove it")
        function, inside = "count_distinct", inside[1:]
    given = [read_expression(each) for each in inside.split()] if _takes(inside) else []
    for each in given:
        if (nested := each.tree.find(exp.AggFunc)) or each.alias or each.is_star:
            what = "an aggregate inside another one" if nested else "not an argument"
            raise each.words.refused(what, f"pass {written} a column or an expression of columns")
    numbers = tuple(number for each in given[1:] if (number := _number(each)) is not None)
    arguments: tuple[Argument, ...]
    if written == _COUNT_IF:
        if len(given) != 1:
            raise words[start:end].refused("count_if takes a condition", "pass one")
        both = f"({inside.text}) AND ({condition.text})" if condition else inside.text
        condition, arguments = None, (_cased(both, "1"),)
    else:
        if function == "count":
            given = [each for each in given if not isinstance(each.tree, exp.Literal)]
        given = [*given[:1], *(each for each in given[1:] if _number(each) is None)]
        arguments = tuple(_argument(each, qualifiers) for each in given)
    if condition is not None:
        if function in _NOT_FILTERED:
            fix = "put the condition into WHERE"
            raise condition.refused(f"FILTER is not supported for {written}", fix)
        value = given[-1].words.text if given else "1"
        arguments = (*arguments[:-1], _cased(condition.text, value))
    call = AggregateCall(start, end, words[start:end], function, arguments, numbers)
    if wrong := problem_with(call.text):
        raise call.words.refused(wrong, "correct its arguments")
    return call


def _number(expression: Expression) -> float | None:
    """The number that is written; None for other expressions."""
    tree = expression.tree
    if not isinstance(tree, exp.Literal) or tree.is_string:
        return None
    text = str(tree.name)
    return int(text) if text.isdecimal() else float(text)


def _takes(inside: Words) -> bool:
    return bool(inside.words) and inside.text != "*"


def _filter(words: Words, at: int) -> tuple[Words | None, int]:
    """The condition of FILTER (WHERE ...) behind a call, and where the call ends."""
    if at + 2 >= len(words) or words.words[at].kind is not TokenType.FILTER:
        return None, at
    closing = words.closing(at + 1)
    condition = read_expression(words[at + 3 : closing])
    return condition.words, closing + 1


def _check_behind(words: Words, at: int, name: str) -> None:
    behind = words[at : at + 1]
    if behind.folded == ("over",):
        fix = "remove OVER and add GROUP BY"
        raise behind.refused(f"{name} with OVER is not supported", fix)
    _check_nulls(words, at)
    if behind.folded == ("within",):
        raise words[at : at + 2].refused("WITHIN GROUP is not supported", "remove it")


def _check_nulls(words: Words, at: int) -> None:
    """Refuse IGNORE NULLS and RESPECT NULLS, inside the parentheses of a call or after them."""
    said = words[max(at, 0) : max(at, 0) + 2]
    if said.folded in {("ignore", "nulls"), ("respect", "nulls")}:
        fix = "remove it"
        if said.folded[0] == "ignore":
            fix += ", and filter with WHERE ... IS NOT NULL"
        what = f"{' '.join(said.folded).upper()} is not supported: nulls count"
        raise said.refused(what, fix)


def _argument(expression: Expression, qualifiers: frozenset[str]) -> Argument:
    column = expression.column(qualifiers)
    if column is not None:
        return Argument(column, None)
    text = expression.words.text
    return Argument(text.replace("`", ""), text)


def _cased(condition: str, value: str) -> Argument:
    text = f"CASE WHEN {condition} THEN {value} END"
    return Argument(text.replace("`", ""), text)


def supported() -> str:
    """The names of all aggregates."""
    return ", ".join(FUNCTIONS)

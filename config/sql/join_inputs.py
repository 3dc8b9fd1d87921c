"""The two inputs of a query with a join, and expressions over their columns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.tokens import TokenType

from idlestate.config.sql.expressions import (
    Expression,
    ResultNames,
    named,
    no_aggregate,
    no_window,
    read_expression,
)
from idlestate.config.sql.query_error import QueryPlace
from idlestate.config.sql.quoting import quoted
from idlestate.config.sql.select_clauses import Select
from idlestate.config.sql.sources import QuerySource, read_relation
from idlestate.config.sql.words import Words


@dataclass
class Side:
    """An input, the name that precedes its columns, and its used columns."""

    source: QuerySource
    name: str
    used: dict[str, str] = field(default_factory=dict)
    """Columns by their names in lower case."""
    places: dict[str, QueryPlace] = field(default_factory=dict)
    """Where the query first names each column, by its name in lower case."""

    def seen(self, column: str, words: Words) -> None:
        """Note that these words name a column."""
        path = (self.name, ".", column.lower())
        folded = words.folded
        starts = (at for at in range(len(folded)) if folded[at : at + 3] == path)
        found = next(starts, None)
        place = words.place if found is None else words[found : found + 3].place
        self.places.setdefault(column.lower(), place)

    def places_of(self, names: Mapping[str, str]) -> dict[str, QueryPlace]:
        """Where the query has columns, given by result name to own name; by lower-case result
        name.
        """
        pairs = ((name.lower(), self.places.get(own.lower())) for name, own in names.items())
        return {name: place for name, place in pairs if place is not None}


class JoinInputs:
    """The inputs of one join.

    Args:
        select: the query.
        join: its join, which has a condition.
        start: where the join begins in FROM.
        form: what to write instead of what is not supported.

    Raises:
        QueryError: there is no condition, the query groups, or an input cannot be read.
    """

    def __init__(self, select: Select, join: exp.Expression, start: int, form: str) -> None:
        words = select.source
        at = {word.kind: at for at, word in words.top_level()}
        if TokenType.ON not in at or join.args.get("on") is None:
            raise words[start:].refused("the join has no ON", form)
        if select.keys is not None or select.is_distinct:
            fix = "read the joined rows in a query of its own, and group there"
            raise select.words.refused("a join cannot be grouped in the same query", fix)
        self.select = select
        self.form = form
        self.on = words[at[TokenType.ON] + 1 :]
        tree = join.this.copy()
        tree.set("version", None)
        self.joined = words[at[TokenType.JOIN] + 1 : at[TokenType.ON]]
        first = read_relation(words[:start], select.tree.args["from_"].this, select.hint)
        second = read_relation(self.joined, tree, None)
        self.first, self.second = (self._side(each) for each in (first, second))
        if self.first.name == self.second.name:
            what = f"both inputs have the name {self.first.name}"
            raise words.refused(what, "give them different names: FROM t AS a JOIN t AS b")
        self._names = ResultNames()
        self.keys: dict[str, str] = {}
        """Key columns of the first input, mapped to those of the second one."""

    def _side(self, source: QuerySource) -> Side:
        if source.name is None:
            raise self.select.source.refused(
                "a subquery in a join has no name", "add AS and a name"
            )
        return Side(source, source.name)

    def conditions(self, on: exp.Expression) -> Iterator[exp.Expression]:
        """The parts of the condition between AND."""
        for part in on.flatten() if isinstance(on, exp.And) else [on]:
            yield part.unnest()

    def column(self, tree: object, side: Side, words: Words) -> str:
        """The name of the column of an input in these words.

        Raises:
            QueryError: it is something else.
        """
        if not isinstance(tree, exp.Column) or tree.table.lower() != side.name or tree.db:
            fix = f"use columns such as {side.name}.key, and compute others in a subquery"
            raise words.refused(f"a column of {side.name} is expected", fix)
        side.seen(tree.name, words)
        return str(tree.name)

    def add_key(self, one: str, other: str) -> None:
        """Add two columns that are compared with `=`, of the first and the second input.

        Raises:
            QueryError: the first one is compared with another column too.
        """
        compared = {name.lower(): with_.lower() for name, with_ in self.keys.items()}
        before = compared.get(one.lower())
        if before is None:
            self.keys[one] = other
        elif before != other.lower():
            what = f"{self.first.name}.{one} is compared with two columns"
            fix = f"compare those of {self.second.name} with each other in a subquery"
            raise self.on.refused(what, fix)

    def items(self) -> list[Expression]:
        """The selected expressions."""
        items = [read_expression(words) for words in self.select.items]
        for item in items:
            no_window(item)
            no_aggregate(item, "a join")
        return items

    def columns_of(self, expression: Expression) -> Iterator[tuple[exp.Column, Side, str]]:
        """The columns of an expression, with their inputs and names.

        Raises:
            QueryError: a column is not preceded by the name of an input.
        """
        sides = {side.name: side for side in (self.first, self.second)}
        for column in expression.tree.find_all(exp.Column):
            side = sides.get(column.parts[0].name.lower())
            if len(column.parts) < 2 or side is None:
                what = f"{column.name} may be a column of either input"
                names = (self.first.name, self.second.name)
                first, second = (each if each.isidentifier() else quoted(each) for each in names)
                fix = f"put {first}. or {second}. in front"
                raise expression.words.at(column.name).refused(what, fix)
            side.seen(column.parts[1].name, expression.words)
            yield column, side, column.parts[1].name

    def reads(self, expression: Expression) -> set[str]:
        """The names of the inputs whose columns an expression reads."""
        return {column.table.lower() for column in expression.tree.find_all(exp.Column)}

    def result_name(self, side: Side, column: str) -> str:
        """The name of a column in the result of the join."""
        raise NotImplementedError

    def named(self) -> dict[str, QueryPlace]:
        """Where the query has the columns of the result, by lower-case result name; the empty name
        means both inputs together.
        """
        found = {"": self.select.source.place}
        for side in (self.second, self.first):
            names = {self.result_name(side, column): column for column in side.places}
            found |= side.places_of(names)
        return found

    def replaced(self, words: Words) -> Words:
        """An expression over the result, whose columns are not preceded by an input's name."""
        texts = []
        folded = words.folded
        for at in range(len(words) - 2):
            if folded[at + 1] != "." or (at and folded[at - 1] == "."):
                continue
            for side in (self.first, self.second):
                if folded[at] == side.name:
                    name = self.result_name(side, words.words[at + 2].name)
                    texts.append((at, at + 3, quoted(name)))
        return words.replaced(texts)

    def output(self, item: Expression) -> str:
        """A selected expression over the result, with its name.

        Raises:
            QueryError: another one has this name.
        """
        self._names.take(item.name, item.words)
        return named(self.replaced(item.words).text, item.name)

"""Expressions of a query: their names, the columns they read, and what they may contain."""

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokens import TokenType

from idlestate.config.sql.quoting import quoted
from idlestate.config.sql.select_clauses import parsed
from idlestate.config.sql.words import Words
from idlestate.retention.added_columns import ADDED_COLUMNS


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression and its name.

    Attributes:
        words: the expression without its name.
        alias: the name, such as `n` in `count(*) AS n`; None without one.
        tree: sqlglot's tree of it.
    """

    words: Words
    alias: str | None
    tree: exp.Expression

    @property
    def is_star(self) -> bool:
        """Whether it is `*` or `c.*`, also `* EXCEPT (a)`."""
        return isinstance(self.tree, exp.Star) or (
            isinstance(self.tree, exp.Column) and isinstance(self.tree.this, exp.Star)
        )

    def is_all(self, qualifiers: frozenset[str]) -> bool:
        """Whether it is all columns: `*`, or `c.*` where c is the name of the rows."""
        words = self.words.folded
        return words == ("*",) or (words[1:] == (".", "*") and words[0] in qualifiers)

    def column(self, qualifiers: frozenset[str]) -> str | None:
        """The column that it names, if it is one; `c.page` where c is the name of the rows."""
        tree = self.tree
        if not isinstance(tree, exp.Column) or isinstance(tree.this, exp.Star):
            return None
        is_plain = not tree.table or (tree.table.lower() in qualifiers and not tree.db)
        return tree.name if is_plain else None

    @property
    def name(self) -> str:
        """The name of its column, as in Spark: its alias, or the last name of a column or struct
        field, or for anything else its text.
        """
        if self.alias:
            return self.alias
        brackets = next(at for at, each in enumerate(self.words.words) if each.shown != "(")
        words = self.words.words[brackets : len(self.words) - brackets]
        is_path = len(words) % 2 == 1 and {word.shown for word in words[1::2]} <= {"."}
        if is_path and isinstance(self.tree.unnest(), exp.Column | exp.Dot):
            return words[-1].name
        return self.words.text.replace("`", "")

    def named(self) -> str:
        """The expression with its name, in Spark's notation."""
        return self.words.text + (f" AS {quoted(self.alias)}" if self.alias else "")


def read_expression(words: Words) -> Expression:
    """Read an expression that may have a name.

    Raises:
        QueryError: it contains something that is not allowed, such as a subquery.
    """
    if not words.words:
        raise words.refused("an expression is missing", "add it, or remove the comma")
    tree = parsed(words, f"SELECT {words.text}")
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or _has_more(tree):
        raise words.refused("this is not an expression", "use columns and functions of Spark")
    (found,) = tree.expressions
    alias = None
    if isinstance(found, exp.Aliases):
        raise words.refused("several names for an expression", "give it one name")
    if isinstance(found, exp.Alias):
        alias, found = found.alias, found.this
        words = words[: -2 if words.words[-2].kind is TokenType.ALIAS else -1]
    _check(words, found)
    return Expression(words, alias, found)


def _has_more(tree: exp.Select) -> bool:
    return any(value for name, value in tree.args.items() if name != "expressions")


def _check(words: Words, tree: exp.Expression) -> None:
    for node in tree.walk():
        if isinstance(node, exp.Query):
            what = "a subquery inside an expression is not supported"
            raise words.at("select").refused(what, "use a view that contains it")
        if isinstance(node, exp.Placeholder | exp.Parameter | exp.SessionParameter):
            raise words.refused("parameters are not supported", "write the value")


def named(text: str, name: str) -> str:
    """The text of an expression with a name, which is omitted for a column of that name."""
    return text if text == quoted(name) else f"{text} AS {quoted(name)}"


def check_name(name: str, words: Words) -> None:
    """Refuse the name of a column that idlestate adds to results.

    Raises:
        QueryError: the name is one of `ADDED_COLUMNS`.
    """
    if name.lower() in ADDED_COLUMNS:
        what = f"{name} is the name of a column that idlestate adds"
        raise words.refused(what, "use another name: AS ..., in a subquery for a column")


def check_star(item: Expression, qualifiers: frozenset[str]) -> None:
    """Refuse a `*` that does not mean all columns: of a struct, or with EXCEPT.

    Raises:
        QueryError: the expression is one.
    """
    if item.is_star and not item.is_all(qualifiers):
        fix = "list the columns, or select them in a subquery in FROM"
        raise item.words.refused("this is * of some columns", fix)


class ResultNames:
    """The names of the columns that a query selects; each may be used once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, name: str, words: Words) -> None:
        """Use a name, for the expression with these words.

        Raises:
            QueryError: another column of the query or of idlestate has this name.
        """
        check_name(name, words)
        if name.lower() in self._taken:
            raise words.refused(f"two columns are called {name}", "add AS and a name")
        self._taken.add(name.lower())


def no_window(expression: Expression) -> None:
    """Refuse OVER.

    Raises:
        QueryError: the expression contains it.
    """
    ranked = expression.tree.find(exp.Rank, exp.DenseRank)
    if ranked is not None:
        found = expression.words.at(*names_of(ranked))
        what = f"{next(iter(names_of(ranked))).upper()} is not supported"
        raise found.refused(what, "use ROW_NUMBER: rows of equal time get different numbers")
    if expression.tree.find(exp.Window):
        fix = "for deduplication, use ROW_NUMBER() OVER (...) AS n in a subquery, and WHERE n = 1"
        raise expression.words.at("over").refused("OVER is not supported here", fix)


def no_aggregate(expression: Expression, where: str) -> None:
    """Refuse aggregates in a clause.

    Args:
        expression: the clause.
        where: its name, for the error.

    Raises:
        QueryError: the expression contains an aggregate.
    """
    for node in expression.tree.find_all(exp.AggFunc):
        name = next(iter(names_of(node)))
        fix = "aggregate in the list of columns, with GROUP BY"
        found = expression.words.at(*names_of(node))
        raise found.refused(f"{name} cannot be used in {where}", fix)


def names_of(function: exp.Func) -> list[str]:
    """The accepted names of a function, in lower case."""
    return [name.lower() for name in function.sql_names()]

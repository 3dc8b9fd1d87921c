"""FROM: the table or view that a query reads, and the steps of subqueries on its rows."""

from dataclasses import dataclass, replace

from sqlglot import exp

from idlestate.config.sql.expressions import no_aggregate, no_window, read_expression
from idlestate.config.sql.query_plan import Named, QueryRows, Selected, Where
from idlestate.config.sql.quoting import quoted
from idlestate.config.sql.select_clauses import Select, read_select
from idlestate.config.sql.words import Words

_NAME_OR_ALIAS = {"this", "db", "catalog", "alias"}


@dataclass(frozen=True, slots=True)
class QuerySource:
    """The source in FROM.

    Attributes:
        rows: the table and the steps of subqueries.
        name: the name that may precede columns, in lower case; None if none may.
        names: its names in hints, in lower case.
        hints: the hints of the query and of its subqueries.
    """

    rows: QueryRows
    name: str | None
    names: frozenset[str]
    hints: tuple[Words, ...] = ()


def read_source(select: Select) -> QuerySource:
    """The source of a query.

    Raises:
        QueryError: it is neither a table, a view nor a subquery of filters and projections.
    """
    return read_relation(select.source, select.tree.args["from_"].this, select.hint)


def read_relation(words: Words, tree: exp.Expression, hint: Words | None) -> QuerySource:
    """A table, view or subquery with its name.

    Raises:
        QueryError: it is something else.
    """
    if any(value for name, value in tree.args.items() if name not in _NAME_OR_ALIAS):
        what = "FROM takes the name of a table or view, or a subquery"
        raise words.refused(what, "put anything else into a view (createOrReplaceTempView)")
    alias = tree.args.get("alias")
    if alias and alias.columns:
        raise words.refused("names of columns behind an alias", "name them in a subquery: a AS b")
    name = tree.alias.lower()
    hints = (hint,) if hint else ()
    if isinstance(tree, exp.Subquery):
        found = _of_subquery(subquery(words))
        rows = found.rows.then(Named(name)) if name else found.rows
        names = found.names | {name} if name else found.names
        return QuerySource(rows, name or None, names, (*found.hints, *hints))
    if not isinstance(tree, exp.Table) or not isinstance(tree.this, exp.Identifier):
        fix = "put it into a view (createOrReplaceTempView)"
        raise words.refused("FROM takes the name of a table or view, or a subquery", fix)
    if "*" in words.folded:
        raise words.at("*").refused("FROM has no *", "remove it")
    parts = [part.name for part in tree.parts]
    rows = QueryRows(".".join(map(quoted, parts)), (Named(name),) if name else (), words.place)
    called = name or tree.name.lower()
    names = frozenset({called, tree.name.lower(), ".".join(parts).lower()})
    return QuerySource(rows, called, names, hints)


def filtered(select: Select, rows: QueryRows) -> QueryRows:
    """The rows that pass WHERE.

    Raises:
        QueryError: the condition contains something that only groups have.
    """
    if select.where is None:
        return rows
    condition = read_expression(select.where)
    no_window(condition)
    no_aggregate(condition, "WHERE")
    return rows.then(Where(condition.words.text, condition.words.place))


def subquery(relation: Words) -> Select:
    """The query in the parentheses with which a relation begins."""
    return read_select(relation[1 : relation.closing(0)])


def check_simple(select: Select) -> None:
    """Refuse a subquery that does more than filter and project.

    Raises:
        QueryError: it groups, or selects distinct rows.
    """
    for clause, name in ((select.keys, "GROUP BY"), (select.having, "HAVING")):
        if clause is not None:
            what = f"{name} in a subquery is not supported"
            fix = "group in the outermost query; read its result in a query of its own"
            raise select.words.at(name).refused(what, fix)
    if select.is_distinct:
        fix = "make it a query of its own"
        raise select.words.at("distinct").refused("DISTINCT in a subquery is not supported", fix)


def _of_subquery(select: Select) -> QuerySource:
    """A subquery of a filter and a projection."""
    check_simple(select)
    source = read_source(select)
    rows = filtered(select, source.rows)
    items = [read_expression(item) for item in select.items]
    for item in items:
        no_window(item)
        no_aggregate(item, "a subquery")
    qualifiers = frozenset({source.name} if source.name else ())
    if [item.is_all(qualifiers) for item in items] != [True]:
        columns = tuple(item.named() for item in items)
        rows = rows.then(Selected(columns, tuple(item.words.place for item in items)))
    return replace(source, rows=rows)

"""SELECT DISTINCT and ROW_NUMBER() as calls of `deduplicate`."""

from dataclasses import dataclass

from sqlglot import exp

from idlestate.config.sql.expressions import (
    Expression,
    check_name,
    named,
    no_aggregate,
    no_window,
    read_expression,
)
from idlestate.config.sql.query_error import QueryPlace
from idlestate.config.sql.query_plan import Computed, Only, QueryPlan, Selected
from idlestate.config.sql.quoting import quoted
from idlestate.config.sql.select_clauses import Select
from idlestate.config.sql.sources import (
    QuerySource,
    check_simple,
    filtered,
    read_source,
    subquery,
)
from idlestate.config.sql.window_order import read_window_order
from idlestate.config.sql.words import Words


def distinct_plan(select: Select, source: QuerySource) -> QueryPlan:
    """The plan of SELECT DISTINCT: the selected columns are the key.

    Raises:
        QueryError: `deduplicate` cannot compute it.
    """
    qualifiers = frozenset({source.name} if source.name else ())
    computed: dict[str, str] = {}
    places: dict[str, QueryPlace] = {}
    keys: list[str] = []
    output: list[str] = []
    for words in select.items:
        item = read_expression(words)
        if item.is_star:
            fix = "list the columns that make rows equal"
            raise words.refused("* is not supported with DISTINCT", fix)
        no_window(item)
        no_aggregate(item, "SELECT DISTINCT")
        column = item.column(qualifiers)
        name = column or item.alias or item.words.text.replace("`", "")
        if column is None:
            computed[name] = item.words.text
            places[name] = words.place
        for each in {name, item.alias or name}:
            check_name(each, words)
        if name.lower() in (key.lower() for key in keys):
            raise words.refused(
                f"two columns are called {name}", "remove one, or add AS and a name"
            )
        keys.append(name)
        output.append(named(quoted(name), item.alias or name))
    rows = filtered(select, source.rows)
    if computed:
        rows = rows.then(Computed(computed, places))
    rows = rows.then(Only(tuple(keys)))
    return QueryPlan("deduplicate", rows, {"key": keys, "keep": "first"}, tuple(output))


@dataclass(frozen=True, slots=True)
class _Numbering:
    """ROW_NUMBER() OVER (PARTITION BY key ORDER BY time, order) AS name."""

    name: str
    key: list[str]
    time: str
    order: list[str]
    keep: str


def numbered_plan(select: Select) -> tuple[QueryPlan, QuerySource] | None:
    """The plan of `SELECT ... FROM (SELECT ..., ROW_NUMBER() OVER (...) AS n ...) WHERE n = 1`.

    None where the query has another form.

    Raises:
        QueryError: `deduplicate` cannot compute it.
    """
    if not isinstance(select.tree.args["from_"].this, exp.Subquery):
        return None
    inner = subquery(select.source)
    items = [read_expression(words) for words in inner.items]
    at = [at for at, item in enumerate(items) if isinstance(item.tree, exp.Window)]
    if len(at) != 1 or not isinstance(items[at[0]].tree.this, exp.RowNumber):
        return None
    check_simple(inner)
    source = read_source(inner)
    qualifiers = frozenset({source.name} if source.name else ())
    numbering = _numbering(items[at[0]], qualifiers)
    others = [*items[: at[0]], *items[at[0] + 1 :]]
    rows = filtered(inner, source.rows)
    names: list[str] | None = None
    if not any(item.is_star for item in others):
        names = [_name(item, qualifiers) for item in others]
    if [item.is_star for item in others] != [True]:
        columns = _columns(others, names, numbering, qualifiers)
        rows = rows.then(Selected(columns, inner.items[0].place))
    outer = select.tree.args["from_"].this.alias.lower()
    _check_condition(select, numbering.name, outer)
    arguments = {"key": numbering.key, "keep": numbering.keep, "event_time": numbering.time}
    if numbering.order:
        arguments["order"] = numbering.order
    plan = QueryPlan(
        "deduplicate",
        rows,
        arguments,
        tuple(_output(select, names, numbering.name)),
        name=outer or None,
    )
    hints = (*source.hints, select.hint) if select.hint else source.hints
    called = source.names | {outer} if outer else source.names
    return plan, QuerySource(rows, outer or None, called, hints)


def _numbering(item: Expression, qualifiers: frozenset[str]) -> _Numbering:
    if item.alias is None:
        raise item.words.refused("the number has no name", "add AS n")
    if item.tree.args.get("spec"):
        fix = "write OVER (PARTITION BY key ORDER BY event_time)"
        raise item.words.at("over").refused("a frame is not supported", fix)
    found = read_window_order(item, qualifiers)
    keep = "last" if found.is_descending else "first"
    return _Numbering(item.alias, found.key, found.time, found.order, keep)


def _name(item: Expression, qualifiers: frozenset[str]) -> str:
    return item.alias or item.column(qualifiers) or item.words.text.replace("`", "")


def _columns(
    items: list[Expression],
    names: list[str] | None,
    numbering: _Numbering,
    qualifiers: frozenset[str],
) -> tuple[str, ...]:
    """What the operator reads: what the subquery selects, and the columns that number its rows."""
    for item in items:
        no_window(item)
        no_aggregate(item, "a subquery")
    if names is None:
        return tuple(item.named() for item in items)
    plain = {name.lower() for item in items if (name := item.column(qualifiers)) and not item.alias}
    taken = {name.lower(): item for name, item in zip(names, items, strict=True)}
    found = [
        named(quoted(name) if item.column(qualifiers) == name else item.words.text, name)
        for name, item in zip(names, items, strict=True)
    ]
    for column in dict.fromkeys((*numbering.key, numbering.time, *numbering.order)):
        if column.lower() in plain:
            continue
        if column.lower() in taken:
            what = f"{column} is another column here than in PARTITION BY or ORDER BY"
            raise taken[column.lower()].words.refused(what, "use another name: AS ...")
        found.append(quoted(column))
    return tuple(found)


def _check_condition(select: Select, name: str, outer: str) -> None:
    """Refuse anything but `n = 1`, which may be written `n <= 1` or `n < 2`."""
    if select.keys is not None or select.is_distinct or select.having is not None:
        fix = "select the columns alone, and aggregate in a query of its own"
        raise select.words.refused("numbered rows cannot be grouped in the same query", fix)
    words = select.where
    fix = f"write WHERE {name} = 1, and filter in the subquery; for more rows use top_n(col, n)"
    if words is None:
        raise select.words.refused(f"a condition on {name} is missing", fix)
    condition = words.folded
    for prefix in ((), (outer, ".")):
        number = (*prefix, name.lower())
        for sign, value in (("=", "1"), ("==", "1"), ("<=", "1"), ("<", "2")):
            if condition == (*number, sign, value):
                return
        if condition == ("1", "=", *number):
            return
    raise words.refused(f"only {name} = 1 is supported", fix)


def _output(select: Select, names: list[str] | None, number: str) -> list[str]:
    found: list[str] = []
    for words in select.items:
        item = read_expression(words)
        no_window(item)
        no_aggregate(item, "this query")
        if item.is_star:
            found += ["*"] if names is None else [quoted(name) for name in names]
            found.append(named("1", number))
            continue
        if item.alias:
            check_name(item.alias, words)
        found.append(_with_number(item, number))
    return found


def _with_number(item: Expression, number: str) -> str:
    """A selected expression, in which the number of a row is 1."""
    folded = item.words.folded
    at = [position for position, word in enumerate(folded) if word == number.lower()]
    found: Words = item.words.replaced([(each, each + 1, "1") for each in at])
    name = item.alias or (number if len(folded) == 1 and at else None)
    return found.text + (f" AS {quoted(name)}" if name else "")

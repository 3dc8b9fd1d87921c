"""ROW_NUMBER() and SELECT DISTINCT as calls of `deduplicate`."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from idlestate.config.sql.expressions import (
    Expression,
    ResultNames,
    check_name,
    check_star,
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
    names = ResultNames()
    for words in select.items:
        item = read_expression(words)
        if item.is_star:
            fix = "list the columns that make rows equal"
            raise words.refused("* is not supported with DISTINCT", fix)
        no_window(item)
        no_aggregate(item, "SELECT DISTINCT")
        column = item.column(qualifiers)
        name = column or item.name
        if column is None:
            computed[name] = item.words.text
        check_name(name, words)
        if name.lower() in (key.lower() for key in keys):
            raise words.refused(
                f"two columns are called {name}", "remove one, or add AS and a name"
            )
        keys.append(name)
        places[name.lower()] = words.place
        names.take(item.name, words)
        output.append(named(quoted(name), item.name))
    rows = filtered(select, source.rows)
    if computed:
        rows = rows.then(Computed(computed, places))
    rows = rows.then(Only(tuple(keys), places))
    arguments = {"key": keys, "keep": "first"}
    return QueryPlan("deduplicate", rows, arguments, tuple(output), named=places)


_TURNED: dict[type[exp.Expression], type[exp.Expression]] = {exp.GTE: exp.LTE, exp.GT: exp.LT}


@dataclass(frozen=True, slots=True)
class _Numbering:
    """ROW_NUMBER() OVER (PARTITION BY key ORDER BY time, order) AS name."""

    name: str
    key: list[str]
    time: str
    order: list[str]
    keep: str
    places: Mapping[str, QueryPlace]
    """The places of key, time and order columns, by lower-case name."""


def numbered_plan(select: Select) -> tuple[QueryPlan, QuerySource] | None:
    """The plan of `SELECT ... FROM (SELECT ..., ROW_NUMBER() OVER (...) AS n ...) WHERE n = 1`.

    None if the query has another form.

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
        names = _names(others)
    if [item.is_all(qualifiers) for item in others] != [True]:
        columns = _columns(others, names, numbering, qualifiers)
        rows = rows.then(columns)
    outer = select.tree.args["from_"].this.alias.lower()
    limit = _limit(select, numbering.name, outer)
    arguments: dict[str, object] = {"key": numbering.key, "event_time": numbering.time}
    if numbering.order:
        arguments["order"] = numbering.order
    if limit == 1:
        arguments["keep"] = numbering.keep
        operator, having, number = "deduplicate", None, "1"
    else:
        _check_first_rows(items[at[0]], numbering, limit)
        arguments |= {"columns": {numbering.name: "count"}, "rows": "unbounded"}
        number = quoted(numbering.name)
        operator, having = "over", f"{number} <= {limit}"
    output = _output(select, names, numbering.name, number, outer)
    named = {item.name.lower(): item.words.place for item in others if not item.is_star}
    named |= {**numbering.places, numbering.name.lower(): items[at[0]].words.place}
    plan = QueryPlan(
        operator,
        rows,
        arguments,
        tuple(text for text, _ in output),
        having,
        outer or None,
        places=tuple(place for _, place in output),
        named=named,
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
    return _Numbering(item.alias, found.key, found.time, found.order, keep, found.places)


def _names(items: list[Expression]) -> list[str]:
    """The names of the columns that the subquery selects."""
    names = ResultNames()
    for item in items:
        names.take(item.name, item.words)
    return [item.name for item in items]


def _columns(
    items: list[Expression],
    names: list[str] | None,
    numbering: _Numbering,
    qualifiers: frozenset[str],
) -> Selected:
    """The input of the operator: what the subquery selects, and the columns that number its
    rows.
    """
    for item in items:
        no_window(item)
        no_aggregate(item, "a subquery")
    places = [item.words.place for item in items]
    if names is None:
        return Selected(tuple(item.named() for item in items), tuple(places))
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
        places.append(numbering.places[column.lower()])
    return Selected(tuple(found), tuple(places))


def _limit(select: Select, name: str, outer: str) -> int:
    """The number of rows that `n = 1`, `n <= 3` or `n < 4` selects; everything else is refused."""
    if select.keys is not None or select.is_distinct or select.having is not None:
        fix = "select the columns alone, and aggregate in a query of its own"
        raise select.words.refused("numbered rows cannot be grouped in the same query", fix)
    words = select.where
    fix = f"write WHERE {name} = 1 or {name} <= 3, and filter in the subquery"
    if words is None:
        raise select.words.refused(f"a condition on {name} is missing", fix)
    tree = read_expression(words).tree
    left, right, sign = tree.args.get("this"), tree.args.get("expression"), type(tree)
    if isinstance(left, exp.Literal):
        left, right, sign = right, left, _TURNED.get(sign, sign)
    is_number = isinstance(left, exp.Column) and left.name.lower() == name.lower()
    if is_number and left.table.lower() in {"", outer} and isinstance(right, exp.Literal):
        limit = int(right.name[:9]) - (sign is exp.LT) if right.name.isdecimal() else 0
        if limit >= 1 and sign in ({exp.LT, exp.LTE} if limit > 1 else {exp.LT, exp.LTE, exp.EQ}):
            return limit
    raise words.refused(f"only {name} = 1 and {name} <= a number are supported", fix)


def _check_first_rows(item: Expression, numbering: _Numbering, limit: int) -> None:
    """Refuse more than one row if later rows would replace earlier ones."""
    check_name(numbering.name, item.words)
    if numbering.keep == "last":
        what = "the newest rows of a key change, but emitted rows cannot be retracted"
        fix = f"use {numbering.name} = 1, or GROUP BY and top_n(col, {limit}, {numbering.time})"
        raise item.words.at("over").refused(what, fix)


def _output(
    select: Select, names: list[str] | None, name: str, number: str, outer: str
) -> list[tuple[str, QueryPlace]]:
    """What the query selects, and where; `number` is the expression of the row number."""
    found: list[tuple[str, QueryPlace]] = []
    taken = ResultNames()
    for words in select.items:
        item = read_expression(words)
        no_window(item)
        no_aggregate(item, "this query")
        check_star(item, frozenset({outer}))
        if not item.is_star:
            taken.take(item.name, words)
            texts = [_with_number(item, name, number, outer)]
        elif names is not None:
            for each in (*names, name):
                taken.take(each, words)
            texts = [*(quoted(each) for each in names), named(number, name)]
        else:
            # The counted column is already one of the operator's columns.
            texts = ["*"] if number == quoted(name) else ["*", named(number, name)]
        found += [(text, words.place) for text in texts]
    return found


def _with_number(item: Expression, name: str, number: str, outer: str) -> str:
    """A selected expression with the number of a row."""
    folded = item.words.folded
    places = []
    for at, word in enumerate(folded):
        if word == name.lower() and folded[max(0, at - 1) : at] != (".",):
            places.append((at, at + 1, number))
        elif word == name.lower() and folded[max(0, at - 2) : at] == (outer, "."):
            places.append((at - 2, at + 1, number))
    found: Words = item.words.replaced(places)
    is_all = [(start, end) for start, end, _ in places] == [(0, len(folded))]
    alias = item.alias or (name if is_all else None)
    return found.text if alias is None else named(found.text, alias)

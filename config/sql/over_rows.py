"""Aggregates with OVER as calls of `over`."""

from dataclasses import dataclass

from sqlglot import exp

from idlestate.config.sql.aggregate_calls import Argument, aggregate_calls
from idlestate.config.sql.expressions import (
    Expression,
    ResultNames,
    check_star,
    named,
    read_expression,
)
from idlestate.config.sql.query_error import QueryPlace
from idlestate.config.sql.query_plan import Computed, Only, QueryPlan
from idlestate.config.sql.quoting import quoted
from idlestate.config.sql.select_clauses import Select
from idlestate.config.sql.sources import QuerySource, filtered
from idlestate.config.sql.window_frames import read_frame
from idlestate.config.sql.window_order import WindowOrder, read_window_order

_FORM = "write SUM(x) OVER (PARTITION BY key ORDER BY event_time) AS total"


def over_plan(select: Select, source: QuerySource) -> QueryPlan | None:
    """The plan of a query that selects aggregates with OVER; None for one without any.

    Raises:
        QueryError: `over` cannot compute it.
    """
    items = [read_expression(words) for words in select.items]
    if not any(item.tree.find(exp.Window) for item in items):
        return None
    qualifiers = frozenset({source.name} if source.name else ())
    found = [_window(item, qualifiers) if item.tree.find(exp.Window) else None for item in items]
    windows: dict[str, _Window] = {}
    needed: list[str] = []
    computed: dict[str, str] = {}
    named: dict[str, QueryPlace] = {}
    names = ResultNames()
    for item, window in zip(items, found, strict=True):
        check_star(item, qualifiers)
        if not item.is_star:
            names.take(item.name if window is None else window.name, item.words)
        if window is None:
            named.setdefault((item.column(qualifiers) or "*").lower(), item.words.place)
            continue
        named[window.name.lower()] = item.words.place
        windows[window.name.lower()] = window
        needed += [argument.column for argument in window.arguments]
        for argument in window.arguments:
            named.setdefault(argument.column.lower(), item.words.place)
            if argument.expression is not None:
                computed[argument.column] = argument.expression
    first, *others = windows.values()
    if any((other.order, other.frame) != (first.order, first.frame) for other in others):
        fix = "use the same PARTITION BY, ORDER BY and frame for all, or a query for each"
        raise select.words.at("over").refused("the windows differ", fix)
    order = first.order
    if order.is_descending:
        raise select.words.at("over").refused("ORDER BY ... DESC is not supported", "remove DESC")
    output = [_selected(*each, qualifiers) for each in zip(items, found, strict=True)]
    rows = filtered(select, source.rows)
    named |= order.places
    if computed:
        rows = rows.then(Computed(computed, named))
    own = [column for item in items if (column := item.column(qualifiers)) is not None]
    if not any(item.is_star for item in items):
        columns = tuple(dict.fromkeys((*order.key, *order.order, *own, *needed)))
        rows = rows.then(Only(columns, named))
    elif computed:
        what = "* next to an aggregate of an expression is not supported"
        fix = "list the columns, or compute the expression in a subquery in FROM"
        raise select.words.at("over").refused(what, fix)
    arguments: dict[str, object] = {
        "key": order.key,
        "columns": {window.name: window.text for window in windows.values()},
        "event_time": order.time,
        **first.frame,
    }
    if order.order:
        arguments["order"] = order.order
    plain = [item.is_star for item in items] == [True, *[False] * len(windows)]
    selected = None if plain else tuple(output)
    return QueryPlan("over", rows, arguments, selected, name=source.name, named=named)


@dataclass(frozen=True, slots=True)
class _Window:
    """`agg(x) OVER (...)`: the name of its column, its aggregate, and what this aggregates."""

    name: str
    text: str
    arguments: tuple[Argument, ...]
    order: WindowOrder
    frame: dict[str, object]


def _window(item: Expression, qualifiers: frozenset[str]) -> _Window:
    over = item.words.position("over")
    window = item.tree
    if over is None or not isinstance(window, exp.Window):
        raise item.words.refused("an expression of OVER is not supported", _FORM)
    order, frame = read_window_order(item, qualifiers), read_frame(item)
    if isinstance(window.this, exp.RowNumber):
        if frame:
            fix = "remove the frame"
            raise item.words[over:].refused("ROW_NUMBER() takes no frame", fix)
        name = item.alias or "row_number()"
        found = _Window(name, "count", (), order, {"rows": "unbounded"})
    else:
        calls = list(aggregate_calls(item.words[:over], qualifiers))
        if [(call.start, call.end) for call in calls] != [(0, over)]:
            raise item.words.refused("this function is not supported with OVER", _FORM)
        call = calls[0]
        found = _Window(item.alias or call.name, call.text, call.arguments, order, frame)
    return found


def _selected(item: Expression, window: _Window | None, qualifiers: frozenset[str]) -> str:
    if item.is_star:
        return "*"
    if window is not None:
        return quoted(window.name)
    column = item.column(qualifiers)
    if column is None:
        fix = "compute it in a subquery in FROM"
        raise item.words.refused("an expression beside OVER is not supported", fix)
    return named(quoted(column), item.name)

"""Aggregates with OVER as calls of `over`."""

from sqlglot import exp

from idlestate.config.sql.aggregate_calls import AggregateCall, aggregate_calls
from idlestate.config.sql.expressions import Expression, check_name, named, read_expression
from idlestate.config.sql.query_error import QueryPlace
from idlestate.config.sql.query_plan import Computed, Only, QueryPlan
from idlestate.config.sql.quoting import quoted
from idlestate.config.sql.select_clauses import Select
from idlestate.config.sql.sources import QuerySource, filtered
from idlestate.config.sql.window_frames import read_frame
from idlestate.config.sql.window_order import read_window_order

_FORM = "write SUM(x) OVER (PARTITION BY key ORDER BY event_time) AS total"


def over_plan(select: Select, source: QuerySource) -> QueryPlan | None:
    """The plan of a query that selects aggregates with OVER; None for one without any.

    Raises:
        QueryError: `over` cannot compute it.
    """
    items = [read_expression(words) for words in select.items]
    windows = [item for item in items if item.tree.find(exp.Window)]
    if not windows:
        return None
    qualifiers = frozenset({source.name} if source.name else ())
    columns: dict[str, str] = {}
    needed: list[str] = []
    computed: dict[str, str] = {}
    places: dict[str, QueryPlace] = {}
    for item in windows:
        name, call = _aggregate(item, qualifiers)
        if name.lower() in (other.lower() for other in columns):
            raise item.words.refused(f"two columns are called {name}", "add AS and a name")
        columns[name] = call.text
        needed += [argument.column for argument in call.arguments]
        for argument in call.arguments:
            if argument.expression is not None:
                computed[argument.column] = argument.expression
                places[argument.column] = item.words.place
    orders = [(read_window_order(item, qualifiers), read_frame(item)) for item in windows]
    if any(order != orders[0] for order in orders):
        fix = "use the same PARTITION BY, ORDER BY and frame for all, or a query for each"
        raise select.words.at("over").refused("the windows differ", fix)
    order, frame = orders[0]
    if order.is_descending:
        raise select.words.at("over").refused("ORDER BY ... DESC is not supported", "remove DESC")
    output = [_selected(item, item in windows, qualifiers) for item in items]
    rows = filtered(select, source.rows)
    if computed:
        rows = rows.then(Computed(computed, places))
    own = [column for item in items if (column := item.column(qualifiers)) is not None]
    if not any(item.is_star for item in items):
        rows = rows.then(Only(tuple(dict.fromkeys((*order.key, *order.order, *own, *needed)))))
    elif computed:
        fix = "list the columns, or compute it in a subquery in FROM"
        raise select.words.at("over").refused("* beside an aggregate of an expression", fix)
    arguments: dict[str, object] = {
        "key": order.key,
        "columns": columns,
        "event_time": order.time,
        **frame,
    }
    if order.order:
        arguments["order"] = order.order
    plain = [item.is_star for item in items] == [True, *[False] * len(windows)]
    return QueryPlan("over", rows, arguments, None if plain else tuple(output), name=source.name)


def _aggregate(item: Expression, qualifiers: frozenset[str]) -> tuple[str, AggregateCall]:
    """The name and the aggregate of `agg(x) OVER (...)`."""
    over = item.words.position("over")
    window = item.tree
    if over is None or not isinstance(window, exp.Window):
        raise item.words.refused("an expression of OVER is not supported", _FORM)
    calls = list(aggregate_calls(item.words[:over], qualifiers))
    if [(call.start, call.end) for call in calls] != [(0, over)]:
        raise item.words.refused("this function is not supported with OVER", _FORM)
    name = item.alias or calls[0].name
    check_name(name, item.words)
    return name, calls[0]


def _selected(item: Expression, is_window: bool, qualifiers: frozenset[str]) -> str:
    if item.is_star:
        return "*"
    column = item.column(qualifiers)
    if is_window:
        over = item.words.position("over")
        calls = list(aggregate_calls(item.words[:over], qualifiers))
        return quoted(item.alias or calls[0].name)
    if column is None:
        fix = "compute it in a subquery in FROM"
        raise item.words.refused("an expression beside OVER is not supported", fix)
    check_name(item.alias or column, item.words)
    return named(quoted(column), item.alias or column)

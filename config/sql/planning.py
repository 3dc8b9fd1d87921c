"""From the text of a query to its plan."""

from dataclasses import replace

from idlestate.config.sql.group_by import group_plan
from idlestate.config.sql.hints import retention_by_input
from idlestate.config.sql.joins import join_plan
from idlestate.config.sql.over_rows import over_plan
from idlestate.config.sql.query_error import QueryError
from idlestate.config.sql.query_plan import QueryPlan
from idlestate.config.sql.row_number import distinct_plan, numbered_plan
from idlestate.config.sql.select_clauses import Select, read_select
from idlestate.config.sql.sources import read_source
from idlestate.config.sql.words import read_words


def plan_query(query: object) -> QueryPlan:
    """The plan of a query.

    Raises:
        QueryError: the query is not valid, or not supported; the text says where and what to
            write instead.
    """
    select = read_select(read_words(query), may_join=True)
    condition = select.having or select.where
    plan = _plan_of(select)
    return replace(
        plan,
        places=plan.places or tuple(item.place for item in select.items),
        condition_place=None if condition is None else condition.place,
    )


def _plan_of(select: Select) -> QueryPlan:
    if select.having is not None and select.keys is None:
        raise select.words.at("having").refused("HAVING needs GROUP BY", "write WHERE")
    joined = join_plan(select)
    numbered = numbered_plan(select) if joined is None else None
    if joined is not None:
        plan, (first, second) = joined
        hints = (*first.hints, *second.hints)
        of_first, of_second = retention_by_input(hints, [first.names, second.names])
        if plan.operator == "join":
            return replace(plan, retention=of_first, second_retention=of_second)
        if of_first is not None:
            what = "no state is kept of this input"
            raise QueryError(of_first.place, what, "name the other input")
        return replace(plan, retention=of_second)
    if numbered is not None:
        plan, source = numbered
    else:
        source = read_source(select)
        if select.keys is not None:
            plan = group_plan(select, source)
        elif select.is_distinct:
            plan = distinct_plan(select, source)
        elif (over := over_plan(select, source)) is not None:
            plan = over
        else:
            fix = "add GROUP BY or DISTINCT: state is kept, and expires, per key"
            raise select.words.refused("there is no GROUP BY", fix)
    (retention,) = retention_by_input(source.hints, [source.names])
    if retention is not None and "window" in plan.arguments:
        raise QueryError(retention.place, "a window ends by itself", "remove the hint")
    return replace(plan, retention=retention)

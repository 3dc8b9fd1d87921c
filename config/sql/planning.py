"""From the text of a query to its plan."""

from dataclasses import replace

from idlestate.config.sql.group_by import group_plan
from idlestate.config.sql.hints import retention_by_input
from idlestate.config.sql.query_plan import QueryPlan
from idlestate.config.sql.select_clauses import read_select
from idlestate.config.sql.sources import read_source
from idlestate.config.sql.words import read_words


def plan_query(query: object) -> QueryPlan:
    """The plan of a query.

    Raises:
        QueryError: the query is not valid, or not supported; the text says where and what to
            write instead.
    """
    select = read_select(read_words(query))
    source = read_source(select)
    if select.keys is None:
        fix = "add GROUP BY: state is kept, and expires, per key"
        raise select.words.refused("there is no GROUP BY", fix)
    plan = group_plan(select, source)
    hints = (*source.hints, *([select.hint] if select.hint else []))
    (retention,) = retention_by_input(hints, [source.names])
    return replace(plan, retention=retention)

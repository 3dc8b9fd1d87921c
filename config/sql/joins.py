"""A query with a join: selects the kind of join."""

from sqlglot.tokens import TokenType

from idlestate.config.sql.as_of_joins import AsOfJoin, is_as_of
from idlestate.config.sql.query_plan import QueryPlan
from idlestate.config.sql.row_joins import RowJoin
from idlestate.config.sql.select_clauses import Select
from idlestate.config.sql.sources import QuerySource

_BEFORE_JOIN = {
    *(TokenType.JOIN, TokenType.LEFT, TokenType.INNER, TokenType.ASOF, TokenType.RIGHT),
    *(TokenType.FULL, TokenType.CROSS, TokenType.NATURAL, TokenType.SEMI, TokenType.ANTI),
}


def join_plan(select: Select) -> tuple[QueryPlan, list[QuerySource]] | None:
    """The plan of a query with a join and its two inputs; None for a query without a join.

    Raises:
        QueryError: neither `join` nor `join_asof` can compute it.
    """
    joins = select.tree.args.get("joins")
    if not joins:
        return None
    words = select.source
    starts = [at for at, word in words.top_level() if word.kind in _BEFORE_JOIN]
    if not starts:
        fix = "write FROM a JOIN b ON a.key = b.key"
        raise words.refused("a comma between tables is not supported", fix)
    if len(joins) > 1:
        fix = "write FROM a JOIN b ON a.key = b.key; join a third input in a query of its own"
        raise words.refused("a query may have one join", fix)
    (join,), start = joins, starts[0]
    of_kind = AsOfJoin if is_as_of(join) else RowJoin
    return of_kind(select, join, start).plan()

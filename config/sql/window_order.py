"""PARTITION BY and ORDER BY in OVER."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from idlestate.config.sql.expressions import Expression
from idlestate.config.sql.query_error import QueryPlace

_FORM = "write OVER (PARTITION BY key ORDER BY event_time)"


@dataclass(frozen=True, slots=True)
class WindowOrder:
    """The key, the event time, the columns that order rows with the same time, and the places of
    all these by lower-case name.
    """

    key: list[str]
    time: str
    order: list[str]
    is_descending: bool
    places: Mapping[str, QueryPlace] = field(compare=False)


def read_window_order(item: Expression, qualifiers: frozenset[str]) -> WindowOrder:
    """Read the part after OVER.

    Raises:
        QueryError: it is not supported.
    """
    words, tree = item.words, item.tree
    over = words.at("over")
    partition = [*(tree.args.get("partition_by") or ())]
    ordered = tree.args["order"].expressions if tree.args.get("order") else []
    if not partition or not ordered:
        raise over.refused("PARTITION BY and ORDER BY are both needed", _FORM)
    if {("nulls", "first"), ("nulls", "last")} & {*pairwise(words.folded)}:
        raise over.refused("NULLS FIRST and NULLS LAST are not supported", _FORM)
    columns = [
        Expression(over, None, each).column(qualifiers)
        for each in (*partition, *(each.this for each in ordered))
    ]
    if None in columns:
        fix = "compute it in a subquery in FROM and give it a name"
        raise over.refused("PARTITION BY and ORDER BY take columns", fix)
    is_descending = bool(ordered[0].args.get("desc"))
    if any(bool(each.args.get("desc")) != is_descending for each in ordered):
        raise over.refused("ORDER BY in both directions", "use either ASC or DESC for all columns")
    names = [str(column) for column in columns]
    key, (time, *order) = names[: len(partition)], names[len(partition) :]
    behind = words[words.position("over") or 0 :]
    places = {name.lower(): behind.at(name).place for name in names}
    return WindowOrder(key, time, order, is_descending, places)

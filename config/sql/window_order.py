"""PARTITION BY and ORDER BY behind OVER."""

from dataclasses import dataclass

from idlestate.config.sql.expressions import Expression

_FORM = "write OVER (PARTITION BY key ORDER BY event_time)"


@dataclass(frozen=True, slots=True)
class WindowOrder:
    """The key, the event time and the columns that order rows of one time."""

    key: list[str]
    time: str
    order: list[str]
    is_descending: bool


def read_window_order(item: Expression, qualifiers: frozenset[str]) -> WindowOrder:
    """What stands behind OVER.

    Raises:
        QueryError: it is not supported.
    """
    words, tree = item.words, item.tree
    over = words.at("over")
    partition = [*(tree.args.get("partition_by") or ())]
    ordered = tree.args["order"].expressions if tree.args.get("order") else []
    if not partition or not ordered:
        raise over.refused("PARTITION BY and ORDER BY are both needed", _FORM)
    if words.position("nulls") is not None:
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
    return WindowOrder(key, time, order, is_descending)

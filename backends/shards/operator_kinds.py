"""All kinds of operators, by their name in definitions."""

from idlestate.backends.shards.aggregates import Aggregate
from idlestate.backends.shards.aggregation import Aggregation
from idlestate.backends.shards.deduplication import Deduplication, Keep
from idlestate.backends.shards.operator_kind import OperatorKind


def kind_of(name: str, aggregates: tuple[Aggregate, ...], order: tuple[str, ...]) -> OperatorKind:
    """The kind with this name.

    Raises:
        ValueError: there is no such kind.
    """
    kinds: tuple[OperatorKind, ...] = (
        Aggregation(aggregates),
        *(Deduplication(keep, aggregates, order) for keep in Keep),
    )
    found = next((each for each in kinds if each.name == name), None)
    if found is None:
        raise ValueError(f"unknown kind of operator {name!r}")
    return found

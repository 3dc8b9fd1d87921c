"""All kinds of operators, by their name in definitions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from idlestate.backends.shards.aggregates import Aggregate, bind
from idlestate.backends.shards.aggregation import Aggregation
from idlestate.backends.shards.as_of import HOW, AsOf
from idlestate.backends.shards.bounded_over import over_named
from idlestate.backends.shards.deduplication import Deduplication, Keep
from idlestate.backends.shards.function_state import PROCESS, FunctionState
from idlestate.backends.shards.operator_kind import LifeKind, OperatorKind
from idlestate.backends.shards.own_accumulator import Classes
from idlestate.backends.shards.stream_join import JOIN, StreamJoin


def kind_of(
    name: str,
    aggregates: Sequence[tuple[str, str, int]],
    schema: pa.Schema,
    order: tuple[str, ...],
    classes: Classes | None = None,
    blanks: Mapping[str, pa.RecordBatch] | None = None,
) -> OperatorKind:
    """The kind with this name in a definition.

    Args:
        name: the kind's name.
        aggregates: their names, texts and ids.
        schema: the types they are bound to, as in `schema_of`.
        order: the order columns.
        classes, blanks: users' accumulators, as in `bind`.

    Raises:
        AggregateError: an aggregate is not valid.
        KeyError, ValueError: there is no kind with this name, or the parts do not fit together.
    """
    if name == PROCESS:
        return FunctionState.from_schema(aggregates, schema)
    types = {field.name: field.type for field in schema}
    bound = bind({each: text for each, text, _ in aggregates}, types, order, classes, blanks)
    numbers = [number for _, _, number in aggregates]
    numbered = tuple(replace(each, id=at) for each, at in zip(bound, numbers, strict=True))
    return _of_aggregates(name, numbered, order)


def schema_of(kind: OperatorKind, inputs: Mapping[str, pa.DataType]) -> pa.Schema:
    """The types that a kind is bound to, from which `kind_of` recreates it."""
    return kind.to_schema(inputs) if isinstance(kind, FunctionState) else pa.schema(inputs)


def is_of_sides(name: str) -> bool:
    """Whether the kind with this name has rows of two inputs instead of lives, as in
    `TableSpec`.
    """
    return name.startswith(JOIN)


def _of_aggregates(
    name: str, aggregates: tuple[Aggregate, ...], order: tuple[str, ...]
) -> OperatorKind:
    if (over := over_named(name, aggregates, order)) is not None:
        return over
    kinds: tuple[LifeKind, ...] = (
        Aggregation(aggregates),
        *(Deduplication(keep, aggregates, order) for keep in Keep),
        *(AsOf.of(how, aggregates, order) for how in HOW),
    )
    found = next((each for each in kinds if each.name == name), StreamJoin.of(name, aggregates))
    if found is None:
        raise ValueError(f"unknown kind of operator {name!r}")
    return found

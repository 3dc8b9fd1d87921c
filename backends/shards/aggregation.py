"""The kind of operator behind `retain`: a life keeps aggregates of its records."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, join, take
from idlestate.backends.runs.table_schema import Column
from idlestate.backends.shards.aggregates import Aggregate, bind
from idlestate.backends.shards.operator_kind import KindDefaults
from idlestate.backends.shards.own_accumulator import Classes
from idlestate.retention.lives import DividedLives

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Aggregation(KindDefaults):
    """See `idlestate.backends.shards.operator_kind.LifeKind`: the sums of accumulators.

    A life's accumulators are an additional row in front of its records, so adding to state and
    aggregating a batch are the same operation.
    """

    aggregates: tuple[Aggregate, ...]

    @property
    def name(self) -> str:
        """See `OperatorKind`."""
        return "aggregate"

    @property
    def writes_once(self) -> bool:
        """See `LifeKind`."""
        return False

    @property
    def combines(self) -> bool:
        """See `LifeKind`."""
        return True

    @cached_property
    def inputs(self) -> Mapping[str, pa.DataType]:
        """See `OperatorKind`."""
        return {name: kind for each in self.aggregates for name, kind in each.inputs}

    @cached_property
    def carried(self) -> tuple[Column, ...]:
        """See `OperatorKind`: the fields of each accumulator."""
        return tuple(column for each in self.aggregates for column in each.columns)

    @property
    def life(self) -> tuple[Column, ...]:
        """See `LifeKind`."""
        return self.carried

    @property
    def stored(self) -> tuple[Column, ...]:
        """See `OperatorKind`."""
        return self.carried

    @cached_property
    def results(self) -> tuple[tuple[str, pa.DataType], ...]:
        """See `OperatorKind`."""
        return tuple((each.name, each.result_type) for each in self.aggregates)

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:
        """See `OperatorKind`."""
        return [field for each in self.aggregates for field in each.lift(values, is_write, t_ms)]

    def at(self, carried: list[Field], t_ms: int) -> list[Field]:
        """See `OperatorKind`."""
        return [field for each, fields in self._split(carried) for field in each.at(fields, t_ms)]

    def combined(self, carried: list[Field], starts: Ints) -> list[Field]:
        """See `LifeKind`."""
        return [
            field
            for each, fields in self._split(carried)
            for field in each.accumulator.reduce(fields, starts)
        ]

    def of_lives(self, old: list[Field], carried: list[Field], walk: DividedLives) -> list[Field]:
        """See `LifeKind`."""
        rows = [
            take(join([stored, added]), walk.source)
            for stored, added in zip(old, carried, strict=True)
        ]
        return self.combined(rows, walk.life_start)

    def shown(self, walk: DividedLives, is_over: Flags) -> Flags:
        """See `LifeKind`: every life that the batch touched and did not end."""
        return walk.is_touched & ~is_over

    def result(self, life: list[Field]) -> list[pa.Array]:
        """See `OperatorKind`."""
        return [each.accumulator.result(fields) for each, fields in self._split(life)]

    def _split(self, columns: list[Field]) -> list[tuple[Aggregate, list[Field]]]:
        found, first = [], 0
        for each in self.aggregates:
            stop = first + len(each.accumulator.field_types)
            found.append((each, columns[first:stop]))
            first = stop
        return found


def aggregation(
    texts: Mapping[str, str],
    types: Mapping[str, pa.DataType],
    order: tuple[str, ...] = (),
    classes: Classes | None = None,
) -> Aggregation:
    """The kind with these aggregates; arguments as in `bind`."""
    return Aggregation(bind(texts, types, order, classes))

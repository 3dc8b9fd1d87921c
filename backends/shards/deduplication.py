"""The kind of operator behind `deduplicate`: a life keeps one complete record.

With `first`, a life is written once: its first record is shown when the life begins, and is not
stored. With `last`, every record is a write, and the newest one is shown when the life ends.
Records of one life compare by event time, order columns, then values, as for the aggregates `first`
and `last`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, join
from idlestate.backends.runs.table_schema import Column
from idlestate.backends.shards.aggregates import Aggregate, bind
from idlestate.backends.shards.extremes import Extreme
from idlestate.backends.shards.operator_kind import KindDefaults
from idlestate.config.sql.aggregate_text import Call
from idlestate.retention.lives import DividedLives

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Keep(StrEnum):
    """Which record of a life is emitted."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True)
class Deduplication(KindDefaults):
    """See `idlestate.backends.shards.operator_kind.LifeKind`: a record is carried as its event
    time and columns.

    A definition stores the columns as `first` or `last` aggregates, with the same information as
    other aggregates; but all values come from one record.
    """

    keep: Keep
    aggregates: tuple[Aggregate, ...]
    order: tuple[str, ...] = ()
    """The columns that order records with the same event time."""

    @property
    def name(self) -> str:
        """See `OperatorKind`."""
        return f"deduplicate {self.keep.value}"

    @property
    def writes_once(self) -> bool:
        """See `LifeKind`."""
        return self.keep is Keep.FIRST

    @property
    def combines(self) -> bool:
        """See `LifeKind`."""
        return True

    @cached_property
    def inputs(self) -> Mapping[str, pa.DataType]:
        """See `OperatorKind`."""
        return dict(self.results)

    @cached_property
    def carried(self) -> tuple[Column, ...]:
        """See `OperatorKind`: event time (ms), then the columns."""
        nothing = {name: pa.nulls(1, kind) for name, kind in self.results}
        none = np.zeros(1, dtype=np.int64)
        blank = self._record.lift(nothing, np.zeros(1, dtype=bool), none)
        ids = ["time", *(f"a{each.id}" for each in self.aggregates)]
        return tuple(Column(id_, field) for id_, field in zip(ids, blank, strict=True))

    @property
    def life(self) -> tuple[Column, ...]:
        """See `LifeKind`."""
        return self.carried

    @property
    def stored(self) -> tuple[Column, ...]:
        """See `OperatorKind`."""
        return () if self.writes_once else self.carried

    @cached_property
    def results(self) -> tuple[tuple[str, pa.DataType], ...]:
        """See `OperatorKind`."""
        return tuple((each.name, each.result_type) for each in self.aggregates)

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:
        """See `OperatorKind`."""
        return self._record.lift(dict(values), is_write, t_ms)

    def at(self, carried: list[Field], t_ms: int) -> list[Field]:
        """See `OperatorKind`."""
        return self._record.at(carried, t_ms)

    def combined(self, carried: list[Field], starts: Ints) -> list[Field]:
        """See `LifeKind`."""
        return self._record.picked(carried, starts, np.arange(len(carried[0])))

    def of_lives(self, old: list[Field], carried: list[Field], walk: DividedLives) -> list[Field]:
        """See `LifeKind`."""
        joined = [join([stored, added]) for stored, added in zip(old, carried, strict=True)]
        return self._record.picked(joined, walk.life_start, walk.source)

    def shown(self, walk: DividedLives, is_over: Flags) -> Flags:
        """See `LifeKind`: with `first`, each life when it begins; with `last`, none."""
        return ~walk.is_old if self.writes_once else np.zeros(len(is_over), dtype=bool)

    def result(self, life: list[Field]) -> list[pa.Array]:
        """See `OperatorKind`."""
        return list(life[1:])

    @cached_property
    def _record(self) -> Extreme:
        names, kinds = zip(*self.results, strict=True) if self.results else ((), ())
        first = [names.index(name) for name in self.order if name in names]
        rest = [at for at in range(len(names)) if at not in first]
        return Extreme(
            names,
            (0, *(at + 1 for at in first + rest)),
            self.keep is Keep.LAST,
            pa.null(),  # there is no one result
            kinds,
            by_time=True,
        )


def deduplication(
    keep: Keep,
    names: Sequence[str],
    types: Mapping[str, pa.DataType],
    order: tuple[str, ...] = (),
) -> Deduplication:
    """The kind that keeps one record with these columns.

    Args:
        keep: which one.
        names: all columns except the keys.
        types: input column name to Arrow type.
        order: columns that order records of one event time.

    Raises:
        AggregateError: a type cannot be compared.
    """
    texts = {name: Call(keep.value, (name,)).of((name,)) for name in names}
    return Deduplication(keep, bind(texts, types, order), order)

"""The kind of operator behind `deduplicate`: a life keeps one of its records, whole.

With `first` a life is written once: its first record is shown when the life begins, and nothing
of it is stored. With `last` every record is a write, and the newest one is shown when the life
ends. Records of one life compare by event time, order columns, then values, as for the aggregates
`first` and `last`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, join, take
from idlestate.backends.runs.table_schema import Column
from idlestate.backends.shards.extremes import Extreme
from idlestate.retention.lives import Walk

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Keep(StrEnum):
    """Which record of a life comes out."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True)
class Deduplication:
    """As of `idlestate.backends.shards.operator_kind.Kind`: a record is carried as its event time
    and columns.
    """

    keep: Keep
    columns: tuple[tuple[str, pa.DataType], ...]
    """The columns of a record besides its keys, with their types."""
    order: tuple[str, ...] = ()
    """Those of them that order records of one event time."""

    @property
    def name(self) -> str:
        """As of `Kind`."""
        return "deduplicate"

    @property
    def writes_once(self) -> bool:
        """As of `Kind`."""
        return self.keep is Keep.FIRST

    @cached_property
    def inputs(self) -> Mapping[str, pa.DataType]:
        """As of `Kind`."""
        return dict(self.columns)

    @cached_property
    def carried(self) -> tuple[Column, ...]:
        """As of `Kind`: event time (ms), then the columns."""
        nothing = {name: pa.nulls(1, kind) for name, kind in self.columns}
        none = np.zeros(1, dtype=np.int64)
        blank = self._record.lift(nothing, np.zeros(1, dtype=bool), none)
        names = ["time", *(f"column_{name}" for name, _ in self.columns)]
        return tuple(Column(name, field) for name, field in zip(names, blank, strict=True))

    @property
    def life(self) -> tuple[Column, ...]:
        """As of `Kind`."""
        return self.carried

    @property
    def stored(self) -> tuple[Column, ...]:
        """As of `Kind`."""
        return () if self.writes_once else self.carried

    @property
    def results(self) -> tuple[tuple[str, pa.DataType], ...]:
        """As of `Kind`."""
        return self.columns

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:
        """As of `Kind`."""
        return self._record.lift(dict(values), is_write, t_ms)

    def at(self, carried: list[Field], t_ms: int) -> list[Field]:
        """As of `Kind`."""
        return self._record.at(carried, t_ms)

    def combined(self, carried: list[Field], starts: Ints) -> list[Field]:
        """As of `Kind`."""
        return self._record.reduce(carried, starts)

    def of_lives(self, old: list[Field], carried: list[Field], walk: Walk) -> list[Field]:
        """As of `Kind`."""
        rows = [
            take(join([stored, added]), walk.source)
            for stored, added in zip(old, carried, strict=True)
        ]
        return self.combined(rows, walk.life_start)

    def shown(self, walk: Walk, is_over: Flags) -> Flags:
        """As of `Kind`: with `first` each life as it begins, with `last` none."""
        return ~walk.is_old if self.writes_once else np.zeros(len(is_over), dtype=bool)

    def result(self, life: list[Field]) -> list[pa.Array]:
        """As of `Kind`."""
        return list(life[1:])

    def to_json(self) -> dict[str, Any]:
        """As of `Kind`."""
        return {"keep": self.keep.value, "columns": [name for name, _ in self.columns]}

    @cached_property
    def _record(self) -> Extreme:
        names = [name for name, _ in self.columns]
        first = [names.index(name) for name in self.order if name in names]
        rest = [at for at in range(len(names)) if at not in first]
        return Extreme(
            tuple(names),
            (0, *(at + 1 for at in first + rest)),
            self.keep is Keep.LAST,
            pa.null(),  # there is no one result
            tuple(kind for _, kind in self.columns),
            by_time=True,
        )

"""The kind of operator behind `over`: a record is emitted with the aggregates of its life so far.

As in SQL, records with the same time (and equal order columns) are peers: each is emitted with
aggregates that include all of them. A ROWS frame has no peers. `bounded_over` implements frames
that are shorter than a life.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, join, take
from idlestate.backends.runs.table_schema import Column, KeyColumns
from idlestate.backends.shards.aggregates import Aggregate
from idlestate.backends.shards.aggregation import Aggregation
from idlestate.backends.shards.emitted_rows import EmitsRecords
from idlestate.backends.shards.frames import WHOLE_LIFE, Frame, FrameUnit, row_order
from idlestate.config.sql.aggregate_text import Call
from idlestate.retention.lives import DividedLives

if TYPE_CHECKING:
    from idlestate.backends.shards.steps_by_key import Steps

OVER = "over"
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Over(EmitsRecords):
    """See `idlestate.backends.shards.operator_kind.LifeKind`.

    A definition stores the record's columns as `first` aggregates.
    """

    aggregation: Aggregation
    columns: tuple[Aggregate, ...]
    """The emitted columns of the record."""
    order: tuple[str, ...] = ()
    """Those of the columns that order records with the same time."""
    frame: Frame = WHOLE_LIFE

    @classmethod
    def of(
        cls,
        aggregates: Sequence[Aggregate],
        order: tuple[str, ...] = (),
        frame: Frame = WHOLE_LIFE,
    ) -> Self:
        """The kind with these columns, bound as in a definition."""
        is_column = [each.text == itself(each.name) for each in aggregates]
        counted, columns = (
            tuple(each for each, flag in zip(aggregates, is_column, strict=True) if flag is wanted)
            for wanted in (False, True)
        )
        return cls(Aggregation(counted), columns, order, frame)

    @property
    def name(self) -> str:
        """See `OperatorKind`: it includes the frame if that is not the default."""
        return OVER if self.frame == WHOLE_LIFE else f"{OVER} {self.frame}"

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """See `OperatorKind`."""
        return (*self.aggregation.aggregates, *self.columns)

    @property
    def writes_once(self) -> bool:
        """See `LifeKind`."""
        return False

    @property
    def combines(self) -> bool:
        """See `LifeKind`."""
        return False

    @cached_property
    def inputs(self) -> Mapping[str, pa.DataType]:
        """See `OperatorKind`."""
        own = {each.name: each.result_type for each in self.columns}
        return dict(self.aggregation.inputs) | own

    @cached_property
    def carried(self) -> tuple[Column, ...]:
        """See `OperatorKind`: the columns of the aggregates, then the record's."""
        own = (Column(f"a{each.id}", pa.nulls(1, each.result_type)) for each in self.columns)
        return (*self.aggregation.carried, *own)

    @property
    def life(self) -> tuple[Column, ...]:
        """See `LifeKind`."""
        return self.aggregation.life

    @property
    def stored(self) -> tuple[Column, ...]:
        """See `OperatorKind`."""
        return self.aggregation.stored

    @property
    def results(self) -> KeyColumns:
        """See `OperatorKind`."""
        return self.aggregation.results

    @cached_property
    def emitted(self) -> KeyColumns:
        """See `EmitsRecords`."""
        own = ((each.name, each.result_type) for each in self.columns)
        return (*own, *self.aggregation.results)

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:
        """See `OperatorKind`."""
        lifted = self.aggregation.lift(values, is_write, t_ms)
        return lifted + [values[each.name] for each in self.columns]

    def at(self, carried: list[Field], t_ms: int) -> list[Field]:
        """See `OperatorKind`."""
        return self.aggregation.at(carried[: self._width], t_ms) + carried[self._width :]

    def combined(self, carried: list[Field], starts: Ints) -> list[Field]:
        """See `LifeKind`; each record is a step of its own."""
        return [take(field, starts) for field in carried]

    def of_lives(self, old: list[Field], carried: list[Field], walk: DividedLives) -> list[Field]:
        """See `LifeKind`."""
        return self.aggregation.of_lives(old, carried[: self._width], walk)

    def shown(self, walk: DividedLives, is_over: Flags) -> Flags:  # noqa: ARG002
        """See `LifeKind`: none, because records are shown instead of lives."""
        return np.zeros(len(is_over), dtype=bool)

    def result(self, life: list[Field]) -> list[pa.Array]:
        """See `OperatorKind`."""
        return self.aggregation.result(life)

    def is_emitted(self, is_read: Flags) -> Flags:
        """See `EmitsRecords`: all records."""
        return np.ones(len(is_read), dtype=bool)

    def rows(
        self, old: list[Field], steps: "Steps", walk: DividedLives
    ) -> tuple[Ints, list[pa.Array]]:
        """See `EmitsRecords`."""
        m, n = len(walk.source) - len(steps.t_ms), len(walk.source)
        own = steps.carried[self._width :]
        source, last = walk.source, np.arange(n)
        if self.frame.unit is FrameUnit.ROWS:
            names = [each.name for each in self.columns]
            source = row_order(walk, n - m, steps.t_ms, self.in_turn(names, own))
        else:
            # The last peer of each row: the row before the next one that begins a step or a key.
            is_last = np.ones(n, dtype=bool)
            is_last[:-1] = (source[1:] < m) | steps.begins()[np.maximum(source[1:] - m, 0)]
            last = np.minimum.accumulate(np.where(is_last, last, n)[::-1])[::-1]
        fields = [
            take(join([stored, added]), source)
            for stored, added in zip(old, steps.carried[: self._width], strict=True)
        ]
        fields = self._running(fields, walk.life_start)
        is_record = source >= m
        records = source[is_record] - m
        columns = [take(field, records) for field in own]
        found = [take(field, last[is_record]) for field in fields]
        return records, columns + self.aggregation.result(found)

    def in_turn(self, names: Sequence[str], columns: list[Field]) -> list[Field]:
        """The record's columns in the order in which they sort records with the same time: `order`
        columns first.
        """
        by_name = dict(zip(names, columns, strict=True))
        return [by_name[name] for name in dict.fromkeys((*self.order, *names)) if name in by_name]

    def _running(self, fields: list[Field], starts: Ints) -> list[Field]:
        """The accumulators of each row and all rows before it in its segment, computed in doubling
        steps.
        """
        n = len(fields[0])
        # The result of a single lifted record.
        fields = self.aggregation.combined(fields, np.arange(n))
        sizes = np.diff(np.append(starts, n))
        place = np.arange(n) - np.repeat(starts, sizes)
        reach = 1
        while (further := np.flatnonzero(place >= reach)).size:
            pairs = np.stack([further - reach, further], axis=1).ravel()
            both = [take(field, pairs) for field in fields]
            added = self.aggregation.combined(both, np.arange(0, len(pairs), 2))
            source = np.arange(n)
            source[further] = n + np.arange(len(further))
            fields = [
                take(join([field, more]), source) for field, more in zip(fields, added, strict=True)
            ]
            reach *= 2
        return fields

    @property
    def _width(self) -> int:
        return len(self.aggregation.carried)


def itself(name: str) -> str:
    """The text of a record's column in a definition."""
    return Call("first", (name,)).of((name,))

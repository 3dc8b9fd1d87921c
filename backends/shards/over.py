"""The kind of operator behind `over`: a record is emitted with the aggregates of its life so far.

As in SQL, records of one time (and equal order columns) are peers: each is emitted with all of them
counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, join, take
from idlestate.backends.runs.table_schema import Column, KeyColumns
from idlestate.backends.shards.aggregates import Aggregate, bind
from idlestate.backends.shards.aggregation import Aggregation
from idlestate.backends.shards.record_rows import EmitsRecords
from idlestate.config.aggregate_text import Call
from idlestate.retention.lives import DividedLives

if TYPE_CHECKING:
    from idlestate.backends.shards.steps_by_key import Steps

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Over(EmitsRecords):
    """As of `idlestate.backends.shards.operator_kind.OperatorKind`.

    In a definition, columns of the record stand as the aggregate `first` of themselves.
    """

    frame: Aggregation
    columns: tuple[Aggregate, ...]
    """Of the record, as they are emitted."""

    @classmethod
    def of(cls, aggregates: Sequence[Aggregate]) -> "Over":
        """The kind of these, bound as a definition has them."""
        is_column = [each.text == _itself(each.name) for each in aggregates]
        frame, columns = (
            tuple(each for each, flag in zip(aggregates, is_column, strict=True) if flag is wanted)
            for wanted in (False, True)
        )
        return cls(Aggregation(frame), columns)

    @property
    def name(self) -> str:
        """As of `OperatorKind`."""
        return "over"

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """As of `OperatorKind`."""
        return (*self.frame.aggregates, *self.columns)

    @property
    def writes_once(self) -> bool:
        """As of `OperatorKind`."""
        return False

    @property
    def combines(self) -> bool:
        """As of `OperatorKind`."""
        return False

    @cached_property
    def inputs(self) -> Mapping[str, pa.DataType]:
        """As of `OperatorKind`."""
        return dict(self.frame.inputs) | {each.name: each.result_type for each in self.columns}

    @cached_property
    def carried(self) -> tuple[Column, ...]:
        """As of `OperatorKind`: those of the aggregates, then the record's."""
        own = (Column(f"a{each.id}", pa.nulls(1, each.result_type)) for each in self.columns)
        return (*self.frame.carried, *own)

    @property
    def life(self) -> tuple[Column, ...]:
        """As of `OperatorKind`."""
        return self.frame.life

    @property
    def stored(self) -> tuple[Column, ...]:
        """As of `OperatorKind`."""
        return self.frame.stored

    @property
    def results(self) -> KeyColumns:
        """As of `OperatorKind`."""
        return self.frame.results

    @cached_property
    def emitted(self) -> KeyColumns:
        """As of `EmitsRecords`."""
        own = ((each.name, each.result_type) for each in self.columns)
        return (*own, *self.frame.results)

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:
        """As of `OperatorKind`."""
        lifted = self.frame.lift(values, is_write, t_ms)
        return lifted + [values[each.name] for each in self.columns]

    def at(self, carried: list[Field], t_ms: int) -> list[Field]:
        """As of `OperatorKind`."""
        return self.frame.at(carried[: self._width], t_ms) + carried[self._width :]

    def combined(self, carried: list[Field], starts: Ints) -> list[Field]:
        """As of `OperatorKind`; each record is a step of its own."""
        return [take(field, starts) for field in carried]

    def of_lives(self, old: list[Field], carried: list[Field], walk: DividedLives) -> list[Field]:
        """As of `OperatorKind`."""
        return self.frame.of_lives(old, carried[: self._width], walk)

    def shown(self, walk: DividedLives, is_over: Flags) -> Flags:  # noqa: ARG002
        """As of `OperatorKind`; records are shown, no lives."""
        return np.zeros(len(is_over), dtype=bool)

    def result(self, life: list[Field]) -> list[pa.Array]:
        """As of `OperatorKind`."""
        return self.frame.result(life)

    def is_emitted(self, is_read: Flags) -> Flags:
        """As of `EmitsRecords`: all of them."""
        return np.ones(len(is_read), dtype=bool)

    def rows(
        self, old: list[Field], steps: "Steps", walk: DividedLives
    ) -> tuple[Ints, list[pa.Array]]:
        """As of `EmitsRecords`."""
        m, n = len(walk.source) - len(steps.t_ms), len(walk.source)
        fields = [
            take(join([stored, added]), walk.source)
            for stored, added in zip(old, steps.carried[: self._width], strict=True)
        ]
        fields = self._running(fields, walk.life_start)
        is_record = walk.source >= m
        # The last peer of each row: the row before the next one that begins a step, or a key.
        is_last = np.ones(n, dtype=bool)
        is_last[:-1] = ~is_record[1:] | steps.begins()[np.maximum(walk.source[1:] - m, 0)]
        last = np.minimum.accumulate(np.where(is_last, np.arange(n), n)[::-1])[::-1]
        records = walk.source[is_record] - m
        columns = [take(field, records) for field in steps.carried[self._width :]]
        found = [take(field, last[is_record]) for field in fields]
        return records, columns + self.frame.result(found)

    def _running(self, fields: list[Field], starts: Ints) -> list[Field]:
        """The accumulators of each row and all before it in its segment, by doubling steps."""
        n = len(fields[0])
        # What a lifted record alone comes to.
        fields = self.frame.combined(fields, np.arange(n))
        sizes = np.diff(np.append(starts, n))
        place = np.arange(n) - np.repeat(starts, sizes)
        reach = 1
        while (further := np.flatnonzero(place >= reach)).size:
            pairs = np.stack([further - reach, further], axis=1).ravel()
            both = [take(field, pairs) for field in fields]
            added = self.frame.combined(both, np.arange(0, len(pairs), 2))
            source = np.arange(n)
            source[further] = n + np.arange(len(further))
            fields = [
                take(join([field, more]), source) for field, more in zip(fields, added, strict=True)
            ]
            reach *= 2
        return fields

    @property
    def _width(self) -> int:
        return len(self.frame.carried)


def over_kind(
    texts: Mapping[str, str],
    columns: Sequence[str],
    types: Mapping[str, pa.DataType],
    order: tuple[str, ...] = (),
) -> Over:
    """The kind that emits records of these columns with aggregates.

    Args:
        texts: result name to aggregate; none has the name of a column.
        columns: of the input, other than keys.
        types: column name to Arrow type.
        order: columns that order records of one event time.

    Raises:
        AggregateError: an aggregate makes no sense, or a type cannot be kept.
    """
    return Over.of(bind(dict(texts) | {name: _itself(name) for name in columns}, types, order))


def _itself(name: str) -> str:
    return Call("first", (name,)).of((name,))

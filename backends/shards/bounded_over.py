"""`over` with a frame of the last n rows, or of the last span of time.

Aggregates cannot be retracted, so a life keeps the rows in the frame of its last record: their
times and the columns that aggregates read. The life's row stores them as lists (`packed_lists`),
and the aggregates of each record are recomputed from them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import spread
from idlestate.backends.runs.fields import Field, join, take, to_arrow
from idlestate.backends.runs.table_schema import Column
from idlestate.backends.shards.aggregates import Aggregate, bind
from idlestate.backends.shards.frames import WHOLE_LIFE, Frame, FrameUnit, life_of_rows, row_order
from idlestate.backends.shards.own_accumulator import Classes
from idlestate.backends.shards.packed_lists import ItemPart, PackedLists
from idlestate.backends.shards.running_aggregates import OVER, Over, itself
from idlestate.backends.shards.sliding_ranges import of_ranges
from idlestate.retention.lives import DividedLives

if TYPE_CHECKING:
    from idlestate.backends.shards.steps_by_key import Steps

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_TIMES = PackedLists((ItemPart(pa.int64()),))


@dataclass(frozen=True)
class _FrameRows:
    """Rows of lives in order: stored rows first, then rows of the batch."""

    life: Ints
    t_ms: Ints
    record: Ints
    """The record that each row is; negative for stored rows."""
    values: Mapping[str, pa.Array]
    """The columns that aggregates read."""


@dataclass(frozen=True)
class BoundedOver(Over):
    """See `idlestate.backends.shards.operator_kind.OperatorKind`.

    A stored column, of a life or of a waiting record, is named after the record's column and type:
    several aggregates may read it, and later ones may read it with another type.
    """

    @cached_property
    def carried(self) -> tuple[Column, ...]:
        """See `OperatorKind`: the time, the record's columns, and others that aggregates read."""
        own = (Column(f"a{each.id}", pa.nulls(1, each.result_type)) for each in self.columns)
        others = (
            Column(f"i_{name}:{kind}", pa.nulls(1, kind), may_return=True)
            for name, kind in ((each, self.inputs[each]) for each in self._others)
        )
        return (Column("t", np.zeros(1, dtype=np.int64)), *own, *others)

    @property
    def in_lists(self) -> tuple[Aggregate, ...]:
        """See `OperatorKind`: the aggregates of the frame."""
        return self.aggregation.aggregates

    @cached_property
    def life(self) -> tuple[Column, ...]:
        """See `LifeKind`: a list of times, and a list per column that aggregates read."""
        (times,) = _TIMES.pack([pa.array([], pa.int64())], np.zeros(1, dtype=np.int64))
        found = [Column("f", times)]
        for name, part in self._kept.items():
            blanks = part.pack(pa.array([], part.kind), np.zeros(1, dtype=np.int64))
            found += [
                Column(f"f_{name}:{part.kind}:{at}", each, may_return=True)
                for at, each in enumerate(blanks)
            ]
        return tuple(found)

    @property
    def stored(self) -> tuple[Column, ...]:
        """See `OperatorKind`."""
        return self.life

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:  # noqa: ARG002
        """See `OperatorKind`; every record is a write."""
        return [t_ms, *(values[name] for name in self._names)]

    def at(self, carried: list[Field], t_ms: int) -> list[Field]:
        """See `OperatorKind`."""
        return [np.full(len(carried[0]), t_ms), *carried[1:]]

    def of_lives(self, old: list[Field], carried: list[Field], walk: DividedLives) -> list[Field]:
        """See `LifeKind`: the rows in the frame of each life's last record."""
        rows = self._frame_rows(old, carried, walk)
        stays = self.frame.stays(rows.life, rows.t_ms)
        counts = np.bincount(rows.life[stays], minlength=len(walk.life_start))
        found = _TIMES.pack([pa.array(rows.t_ms[stays])], counts)
        mask, ends = pa.array(stays), np.cumsum(counts)
        for name, part in self._kept.items():
            found += part.pack(rows.values[name].filter(mask), ends)
        return found

    def result(self, life: list[Field]) -> list[pa.Array]:
        """See `OperatorKind`: the results of the life's last record."""
        t_ms, values, counts = self._unpacked(life)
        lifted = self.aggregation.lift(values, np.ones(len(t_ms), dtype=bool), t_ms)
        if not len(counts):
            return self.aggregation.result(lifted)
        starts = np.cumsum(counts) - counts
        return self.aggregation.result(self.aggregation.combined(lifted, starts))

    def rows(
        self, old: list[Field], steps: "Steps", walk: DividedLives
    ) -> tuple[Ints, list[pa.Array]]:
        """See `EmitsRecords`."""
        rows = self._frame_rows(old, steps.carried, walk)
        n = len(rows.life)
        is_record = rows.record >= 0
        lasts = self.frame.lasts(rows.life, rows.t_ms)[is_record]
        sizes = self.frame.sizes(rows.life, rows.t_ms, lasts)
        lifted = self.aggregation.lift(rows.values, np.ones(n, dtype=bool), rows.t_ms)
        single = self.aggregation.combined(lifted, np.arange(n))
        place = np.arange(n) - np.searchsorted(rows.life, rows.life)
        found = of_ranges(single, self.aggregation.combined, place, lasts, sizes)
        records = rows.record[is_record]
        columns = [take(field, records) for field in steps.carried[1 : 1 + len(self.columns)]]
        return records, columns + self.aggregation.result(found)

    def _frame_rows(self, old: list[Field], carried: list[Field], walk: DividedLives) -> _FrameRows:
        times_ms, stored, counts = self._unpacked(old)
        n = len(carried[0])
        source = walk.source
        if self.frame.unit is FrameUnit.ROWS:
            columns = self.in_turn(self._names, carried[1:])
            source = row_order(walk, n, np.asarray(carried[0]), columns)
        # For each row of the walk, where its rows begin among all rows; stored rows come first.
        begins = np.concatenate([np.cumsum(counts) - counts, len(times_ms) + np.arange(n)])
        sizes = np.concatenate([counts, np.ones(n, dtype=np.int64)])[source]
        at = spread(begins[source], sizes)
        t_ms = np.concatenate([times_ms, np.asarray(carried[0])])[at]
        given = dict(zip(self._names, carried[1:], strict=True))
        values = {
            name: to_arrow(take(join([stored[name], given[name]]), at)) for name in self._kept
        }
        life = np.repeat(life_of_rows(walk), sizes)
        return _FrameRows(life, t_ms, at - len(times_ms), values)

    def _unpacked(self, life: list[Field]) -> tuple[Ints, dict[str, pa.Array], Ints]:
        """Times and values of the rows of lives, and how many each life has."""
        (times,), counts = _TIMES.unpack(life[:1])
        values, begin = {}, 1
        for name, part in self._kept.items():
            columns = life[begin : begin + part.columns]
            (items,), held = PackedLists((part,)).unpack(columns)
            # Lives written before an aggregate read this column have no values for it.
            is_held = np.repeat(held > 0, counts)
            if not is_held.all():
                items = items.take(pa.array(np.cumsum(is_held) - 1, mask=~is_held))
            values[name] = items.cast(part.kind)
            begin += part.columns
        return times.to_numpy(), values, counts.astype(np.int64)

    @cached_property
    def _kept(self) -> dict[str, ItemPart]:
        pairs = self.aggregation.inputs.items()
        return {name: ItemPart(kind, may_be_null=True) for name, kind in pairs}

    @property
    def _names(self) -> tuple[str, ...]:
        """The columns that a record carries."""
        return (*(each.name for each in self.columns), *self._others)

    @cached_property
    def _others(self) -> tuple[str, ...]:
        own = {each.name for each in self.columns}
        return tuple(name for name in self.aggregation.inputs if name not in own)


def over_of(
    aggregates: Sequence[Aggregate], order: tuple[str, ...] = (), frame: Frame = WHOLE_LIFE
) -> Over:
    """The kind with these aggregates and columns, bound as in a definition."""
    return (Over if frame.size is None else BoundedOver).of(aggregates, order, frame)


def over_named(name: str, aggregates: Sequence[Aggregate], order: tuple[str, ...]) -> Over | None:
    """The kind with this name in a definition; None if the name belongs to another kind.

    Raises:
        ValueError: the frame is not valid.
    """
    kind, _, frame = name.partition(" ")
    if kind != OVER:
        return None
    return over_of(aggregates, order, Frame.parse(frame) if frame else WHOLE_LIFE)


def over_kind(
    texts: Mapping[str, str],
    columns: Sequence[str],
    types: Mapping[str, pa.DataType],
    order: tuple[str, ...] = (),
    frame: Frame = WHOLE_LIFE,
    classes: Classes | None = None,
) -> Over:
    """The kind that emits records of these columns with aggregates.

    Args:
        texts: result name to aggregate; no name may equal a column name.
        columns: input columns other than keys.
        types: column name to Arrow type.
        order: columns that order records of one event time.
        frame: which records count.

    Raises:
        AggregateError: an aggregate is not valid, or a type cannot be stored.
    """
    every = dict(texts) | {name: itself(name) for name in columns}
    bound = bind(every, types, order, classes)
    return over_of(bound, order, frame)

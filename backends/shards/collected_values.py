"""collect_list, collect_set and top_n: some values of a segment, in an order that records define.

| function | items kept | in order of | which |
|---|---|---|---|
| collect_list(x, n) | event time (ms), order columns, x | all of them | the first n with an x |
| collect_set(x, n) | the same | all of them | the first of each x, of these the first n |
| top_n(x, n) | x | x, largest first | the first n with an x |
| top_n(x, n, by) | by, x | by, then x, largest first | the first n with a by |

A dropped item can never count later, so items may be dropped at once, and the order in which
records are aggregated does not matter.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, is_valid
from idlestate.backends.runs.value_order import order_codes, order_keys
from idlestate.backends.shards.packed_lists import ItemPart, PackedLists

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Collected:
    """One of the four functions; `kept` names the columns whose values form an item."""

    kept: tuple[str, ...]
    """Input columns kept, in order of importance: the value last."""
    kept_types: tuple[pa.DataType, ...]
    limit: int
    by_time: bool
    """Whether the record's event time comes first: collect_list and collect_set."""
    is_set: bool = False

    @property
    def result_type(self) -> pa.DataType:
        """A list of values."""
        return pa.list_(self.kept_types[-1])

    @property
    def field_types(self) -> tuple[pa.DataType, ...]:
        """The types of the fields."""
        return self._lists.field_types

    @cached_property
    def _lists(self) -> PackedLists:
        counted = self._counted
        times = [ItemPart(pa.int64())] if self.by_time else []
        pairs = zip(self.kept, self.kept_types, strict=True)
        return PackedLists((*times, *(ItemPart(kind, name != counted) for name, kind in pairs)))

    @property
    def _counted(self) -> str:
        """The column that must not be null for a record to count."""
        return self.kept[-1] if self.by_time else self.kept[0]

    def lift(self, values: dict[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:
        """One item per record that counts."""
        counted = is_write & is_valid(values[self._counted])
        mask = pa.array(counted)
        times = [pa.array(t_ms[counted])] if self.by_time else []
        columns = [values[name].filter(mask) for name in self.kept]
        if self.is_set:
            columns[-1] = one_zero(columns[-1])
        return self._lists.pack([*times, *columns], counted)

    def at(self, fields: list[Field], t_ms: int) -> list[Field]:
        """The same items with another event time."""
        (_, *columns), counts = self._lists.unpack(fields)
        times = pa.array(np.full(int(counts.sum()), t_ms))
        return self._lists.pack([times, *columns], counts)

    def reduce(self, fields: list[Field], starts: Ints) -> list[Field]:
        """The remaining items of each segment, in order."""
        items, segment = self._lists.unpack_segments(fields, starts)
        keys = [key for part in items for key in order_keys(part)]
        rows = np.lexsort((*reversed(keys), segment))
        if not self.by_time:
            rows = rows[::-1]  # segments too: they are sorted below
            rows = rows[np.argsort(segment[rows], kind="stable")]
        if self.is_set:
            rows = rows[np.sort(first_of_each(order_codes(items[-1])[rows], segment[rows]))]
        of = segment[rows]
        place = np.arange(len(rows)) - np.searchsorted(of, of)
        rows = rows[place < self.limit]
        taken = [part.take(pa.array(rows)) for part in items]
        return self._lists.pack(taken, np.bincount(segment[rows], minlength=len(starts)))

    def result(self, fields: list[Field]) -> pa.Array:
        """A list per segment, empty where nothing was counted."""
        items, counts = self._lists.unpack(fields)
        bounds = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        values = items[-1].cast(self.kept_types[-1])
        return pa.ListArray.from_arrays(pa.array(bounds), values)


@dataclass(frozen=True)
class DistinctCount:
    """count(distinct x), exact up to a limit. Fields: whether the limit was exceeded (int64), the
    values.
    """

    column: str
    kind: pa.DataType
    limit: int
    result_type: pa.DataType = pa.int64()

    @property
    def field_types(self) -> tuple[pa.DataType | None, ...]:
        """The types of the fields."""
        return (None, *self._lists.field_types)

    @cached_property
    def _lists(self) -> PackedLists:
        return PackedLists((ItemPart(self.kind),))

    def lift(self, values: dict[str, pa.Array], is_write: Flags) -> list[Field]:
        """One value per record; none for nulls and reads."""
        array = values[self.column]
        counted = is_write & is_valid(array)
        none = np.zeros(len(array), dtype=np.int64)
        return [none, *self._lists.pack([array.filter(pa.array(counted))], counted)]

    def reduce(self, fields: list[Field], starts: Ints) -> list[Field]:
        """The distinct values of each segment; none where there are too many."""
        (items,), segment = self._lists.unpack_segments(fields[1:], starts)
        rows = first_of_each(order_codes(items), segment)
        sizes = np.bincount(segment[rows], minlength=len(starts))
        too_many = np.maximum.reduceat(fields[0], starts)
        too_many[sizes > self.limit] = 1
        rows = rows[too_many[segment[rows]] == 0]
        sizes[too_many > 0] = 0
        return [too_many, *self._lists.pack([items.take(pa.array(rows))], sizes)]

    def result(self, fields: list[Field]) -> pa.Array:
        """The number of distinct values, null where there were too many."""
        _, counts = self._lists.unpack(fields[1:])
        return pa.array(counts, mask=np.asarray(fields[0]) > 0)


def first_of_each(codes: Ints, segment: Ints) -> Ints:
    """The first row of each code in each segment, by segment and code."""
    rows = np.lexsort((codes, segment))
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = (np.diff(codes[rows]) != 0) | (np.diff(segment[rows]) != 0)
    return rows[is_first]


def one_zero(array: pa.Array) -> pa.Array:
    """The same values with negative zeros made positive, because both zeros are one value."""
    if not pa.types.is_floating(array.type):
        return array
    return pa.array(array.to_numpy() + array.type.to_pandas_dtype()(0))

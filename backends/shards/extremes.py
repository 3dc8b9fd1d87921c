"""min, max, first, last, min_by, max_by: the row of a segment that is extreme in some columns.

All six keep the fields of one record: the smallest (or largest) by a list of columns, compared one
after the other. As in Spark SQL, nulls sort before every value and NaN after every number.

| function | fields kept | compared | counts only |
|---|---|---|---|
| min(x), max(x) | x | x | rows with x |
| min_by(x, y), max_by(x, y) | x, y | y, then x | rows with y |
| first(x), last(x) | event time (ms), order columns, x | all of them | writes |
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.fields import Field, is_valid, take
from idlestate.backends.runs.value_order import order_codes

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def extreme_rows(
    columns: list[Field], valid: Flags, starts: Ints, largest: bool, source: Ints | None = None
) -> Ints:
    """The extreme row among the valid rows of each segment, -1 where there is none.

    Args:
        columns: the columns to compare, in this order; an Arrow null is smaller than every value.
        valid: the rows that count.
        starts: first row of each segment; rows before starts[0] belong to none.
        largest: whether the largest wins, else the smallest.
        source: the position of each row in the columns; None: its own index.
    """
    sizes = np.diff(np.append(starts, len(valid)))
    rows = np.flatnonzero(valid)
    rows = rows[rows >= starts[0]]
    segment = np.repeat(np.arange(len(starts)), sizes)[rows - starts[0]]
    found = np.full(len(starts), -1)
    found[segment[::-1]] = rows[::-1]
    for column, key_of in ((each, key_of) for each in columns for key_of in _keys(each)):
        is_tied = np.zeros(len(rows), dtype=bool)
        is_tied[1:] = segment[1:] == segment[:-1]
        is_tied[:-1] |= is_tied[1:]
        if not is_tied.any():
            break
        rows, segment = rows[is_tied], segment[is_tied]
        first = np.flatnonzero(np.concatenate([[True], segment[1:] != segment[:-1]]))
        candidates = key_of(take(column, rows if source is None else source[rows]))
        best = (np.maximum if largest else np.minimum).reduceat(candidates, first)
        wins = candidates == np.repeat(best, np.diff(np.append(first, len(rows))))
        segment, rows = segment[wins], rows[wins]
        found[segment[::-1]] = rows[::-1]
    return found


def _keys(column: Field) -> list[Callable[[Field], Ints]]:
    """The sort keys of a column: whether there is a value, then the value."""
    if isinstance(column, np.ndarray):
        return [np.asarray]
    presence = [_presence] if column.null_count else []
    return [*presence, order_codes]


def _presence(array: pa.Array) -> Ints:
    return is_valid(array).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Extreme:
    """One of the six functions; `kept` names the columns whose values are fields."""

    kept: tuple[str, ...]
    """Input columns kept: the value first."""
    compared: tuple[int, ...]
    """Fields compared, by position in the order of importance."""
    is_largest: bool
    result_type: pa.DataType
    kept_types: tuple[pa.DataType, ...]
    by_time: bool
    """Whether a record's event time is the first field: first and last."""

    @property
    def field_types(self) -> tuple[pa.DataType | None, ...]:
        """Types of the fields, None where a field is a plain int64 array."""
        return (None, *self.kept_types) if self.by_time else self.kept_types

    @property
    def _no_time(self) -> int:
        """The placeholder time of a missing record, which loses against every real time."""
        return np.iinfo(np.int64).min if self.is_largest else np.iinfo(np.int64).max

    def lift(self, values: dict[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:
        """The kept columns; a read contributes nothing."""
        columns = [values[name] for name in self.kept]
        if self.by_time:
            return [np.where(is_write, t_ms, self._no_time), *columns]
        if is_write.all():
            return columns
        blank = pa.array(~is_write)
        return [pc.if_else(blank, pa.scalar(None, c.type), c) for c in columns]

    def at(self, fields: list[Field], t_ms: int) -> list[Field]:
        """The fields with another event time where there is a record."""
        own = np.asarray(fields[0])
        return [np.where(own == self._no_time, own, t_ms), *fields[1:]]

    def reduce(self, fields: list[Field], starts: Ints) -> list[Field]:
        """The fields of the extreme record of each segment, nulls where none counts."""
        leading = fields[self.compared[0]]
        if isinstance(leading, np.ndarray):
            valid = leading != self._no_time
        else:
            valid = is_valid(leading)
        rows = extreme_rows([fields[at] for at in self.compared], valid, starts, self.is_largest)
        if (rows >= 0).all():
            return [take(field, rows) for field in fields]
        some = pa.array(rows, mask=rows < 0)
        picked: list[Field] = []
        for field in fields:
            if isinstance(field, np.ndarray):
                picked.append(np.where(rows >= 0, field[np.maximum(rows, 0)], self._no_time))
            else:
                picked.append(field.take(some))
        return picked

    def picked(self, fields: list[Field], starts: Ints, source: Ints) -> list[Field]:
        """The fields of the extreme record of each segment, or of any where none counts.

        Args:
            fields: of records in any order.
            starts: first row of each segment.
            source: which record each row is.
        """
        every = np.ones(len(source), dtype=bool)
        columns = [fields[at] for at in self.compared]
        rows = source[extreme_rows(columns, every, starts, self.is_largest, source)]
        return [take(field, rows) for field in fields]

    def result(self, fields: list[Field]) -> pa.Array:
        """The value kept."""
        value = fields[-1] if self.by_time else fields[0]
        return value

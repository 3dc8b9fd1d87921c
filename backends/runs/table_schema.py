"""The columns of a table: key columns, and payload columns with ids that never change.

A run's file names its columns by id, so a table may gain and lose columns without a rewrite of
older runs: a column that a run lacks is read as its `blank`, a surplus column is not read, and a
narrower type is widened on reading.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.fields import Field, slice_field, take, to_arrow

KeyColumns = tuple[tuple[str, pa.DataType], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A payload column.

    Attributes:
        id: its name in files; never used for another column of the table.
        blank: one row with the value for lives that began before the column existed. A numpy array
            if a value is always present, otherwise an Arrow array of the column's type.
        may_return: whether a definition may drop the column and a later one add it again.
    """

    id: str
    blank: Field
    may_return: bool = False

    @property
    def kind(self) -> pa.DataType:
        """Its Arrow type in files."""
        return to_arrow(self.blank).type

    @property
    def is_numpy(self) -> bool:
        """Whether it is handled as a numpy array."""
        return isinstance(self.blank, np.ndarray)

    def blanks(self, rows: int) -> Field:
        """The column for this many lives without a value."""
        if not rows:
            return slice_field(self.blank, 0, 0)
        return take(self.blank, np.zeros(rows, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class TableSchema:
    """The columns of a table, in addition to hash and times."""

    keys: KeyColumns = ()
    columns: tuple[Column, ...] = ()
    is_log: bool = False
    """Whether rows never replace others, so a key may have many rows, and none is looked up."""
    ends_run_back: bool = False
    """Whether a row may end before an older row of its key would: a function may remove a timer, or
    a state that a late record sets again.
    """
    counted_by: str | None = None
    """The column with the number of rows that each row represents; None: one."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Converts the columns of an older file to the current schema.

    Attributes:
        schema: the current schema.
        sources: for each of its columns, the index among the columns read from the file, or None.
    """

    schema: TableSchema
    sources: tuple[int | None, ...]

    @classmethod
    def of(cls, schema: TableSchema, stored: Sequence[str]) -> "Reader":
        """The reader of a file that has these columns of the schema."""
        at = {name: place for place, name in enumerate(stored)}
        return cls(schema, tuple(at.get(column.id) for column in schema.columns))

    def with_schema(self, schema: TableSchema) -> "Reader":
        """The reader of the same file for other columns; the file lacks new ones."""
        at = {
            column.id: source
            for column, source in zip(self.schema.columns, self.sources, strict=True)
        }
        return Reader(schema, tuple(at.get(column.id) for column in schema.columns))

    def read(self, payload: Sequence[Field], rows: int) -> list[Field]:
        """The payload of this many rows, in the schema's columns and types."""
        return [
            column.blanks(rows) if source is None else _as(payload[source], column)
            for column, source in zip(self.schema.columns, self.sources, strict=True)
        ]


def widens(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether every value of the stored type is valid in the other type, so it may be read as that
    type.
    """
    if stored == kind:
        return True
    types: Any = pa.types
    if types.is_signed_integer(stored) and types.is_signed_integer(kind):
        return bool(stored.bit_width <= kind.bit_width)
    if types.is_floating(stored) and types.is_floating(kind):
        return bool(stored.bit_width <= kind.bit_width)
    if types.is_decimal(stored) and types.is_decimal(kind):
        whole = kind.precision - kind.scale >= stored.precision - stored.scale
        return bool(kind.scale >= stored.scale and whole)
    return False


def _as(field: Field, column: Column) -> Field:
    if isinstance(field, np.ndarray) or field.type == column.kind:
        return field
    return field.cast(column.kind)

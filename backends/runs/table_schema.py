"""What a table's rows are made of: key columns, and payload columns with ids that never change.

A run's file names its columns by id, so a table may get columns and lose some while older runs
stay as they are: a column that a run lacks reads as its `blank`, one that it has too many is not
read, one of a narrower type is widened as it is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.fields import Field, take, to_arrow

KeyColumns = tuple[tuple[str, pa.DataType], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A payload column.

    Attributes:
        id: its name in files; no other column of the table ever has it.
        blank: one row: the value of a life that began before the column was there. A numpy array
            where a value is always there, else an Arrow array of the column's type.
        may_return: whether a definition may drop the column and a later one have it again.
    """

    id: str
    blank: Field
    may_return: bool = False

    @property
    def kind(self) -> pa.DataType:
        """Its Arrow type, in files."""
        return to_arrow(self.blank).type

    @property
    def is_numpy(self) -> bool:
        """Whether it moves as a numpy array."""
        return isinstance(self.blank, np.ndarray)

    def blanks(self, rows: int) -> Field:
        """The column of this many lives that never got a value."""
        return take(self.blank, np.zeros(rows, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class TableSchema:
    """The columns of a table besides hash and times."""

    keys: KeyColumns = ()
    columns: tuple[Column, ...] = ()
    is_log: bool = False
    """Whether rows replace no others, so that one key may have many and none is looked up."""
    ends_run_back: bool = False
    """Whether a row may end before an older one of its key would: a function removes a timer, or a
    state that a late record sets again.
    """
    counted_by: str | None = None
    """The column that says how many rows each row stands for; None: one."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Brings the columns of an older file into the schema of today.

    Attributes:
        schema: that of today.
        sources: per column of it the place among the file's columns that are read, or None.
    """

    schema: TableSchema
    sources: tuple[int | None, ...]

    @classmethod
    def of(cls, schema: TableSchema, stored: Sequence[str]) -> "Reader":
        """The reader of a file that has these of the schema's columns."""
        at = {name: place for place, name in enumerate(stored)}
        return cls(schema, tuple(at.get(column.id) for column in schema.columns))

    def with_schema(self, schema: TableSchema) -> "Reader":
        """The reader of the same file for other columns; those that are new are not in the file."""
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
    """Whether every value of the stored type is one of the other, so that it may be read as it."""
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

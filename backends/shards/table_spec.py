"""What an operator is, as its shards see it."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from idlestate.backends.runs.table_schema import KeyColumns, TableSchema
from idlestate.backends.shards import remembered_keys
from idlestate.backends.shards.operator_kind import OperatorKind
from idlestate.backends.shards.shard_record import OPEN, REMEMBERED


@dataclass(frozen=True)
class TableSpec:
    """Key columns, what is done with the records, and the columns that order equal times."""

    keys: KeyColumns
    kind: OperatorKind
    order: tuple[tuple[str, pa.DataType], ...] = ()

    @property
    def key_names(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return tuple(name for name, _ in self.keys)

    @cached_property
    def inputs(self) -> dict[str, pa.DataType]:
        """Every column that keys, kind and order read, with its type."""
        return dict(self.keys) | dict(self.order) | dict(self.kind.inputs)

    @cached_property
    def schema(self) -> TableSchema:
        """The columns of the table of open lives."""
        return TableSchema(self.keys, self.kind.stored)

    @cached_property
    def tables(self) -> dict[str, TableSchema]:
        """The tables of a shard, by name."""
        return {OPEN: self.schema, REMEMBERED: remembered_keys.SCHEMA}

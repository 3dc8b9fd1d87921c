"""Kinds of operators that emit a row per record instead of rows of lives."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field
from idlestate.backends.runs.keys import take_keys
from idlestate.backends.runs.table_schema import KeyColumns
from idlestate.backends.shards.operator_kind import KindDefaults
from idlestate.retention.lives import DividedLives

if TYPE_CHECKING:
    from idlestate.backends.shards.steps_by_key import Steps

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


# About 0.5 MB: the JVM's garbage collector treats arrays of 1 MB and more specially, and marks its
# entire heap again and again for them.
ROWS_PER_CELL = 8_192


class EmitsRows(KindDefaults, ABC):
    """The additions to `idlestate.backends.shards.operator_kind.OperatorKind` of kinds that do not
    emit lives.
    """

    @property
    @abstractmethod
    def emitted(self) -> KeyColumns:
        """The columns of an emitted row, after the keys."""


class EmitsRecords(EmitsRows):
    """A kind that emits a row per record.

    Records are processed in order (`TableSpec.in_order`), because the output of a record depends on
    all earlier records of its key.
    """

    @abstractmethod
    def is_emitted(self, is_read: Flags) -> Flags:
        """Which records are emitted. An emitted record is always a step of its own."""

    @abstractmethod
    def rows(
        self, old: list[Field], steps: "Steps", walk: DividedLives
    ) -> tuple[Ints, list[pa.Array]]:
        """The emitted rows: the record that each row belongs to, and the `emitted` columns.

        Args:
            old: the `life` columns of the lives that were stored.
            steps: the records, at least one.
            walk: how stored lives and records fall into lives.
        """


def record_schema(keys: KeyColumns, kind: EmitsRows) -> pa.Schema:
    """The Arrow schema of emitted rows."""
    return pa.schema([*keys, *kind.emitted, ("batch_id", pa.int64())])


def record_rows(
    keys: KeyColumns,
    kind: EmitsRecords,
    steps: "Steps",
    old: list[Field],
    walk: DividedLives,
    batch_id: int,
) -> pa.Table:
    """The emitted records of a batch.

    Args:
        keys: the key columns.
        kind: what is emitted.
        steps: the records.
        old: the `life` columns of the lives that were stored.
        walk: how both fall into lives.
        batch_id: the batch.
    """
    schema = record_schema(keys, kind)
    if not len(steps):
        return schema.empty_table()
    records, columns = kind.rows(old, steps, walk)
    key = np.repeat(np.arange(len(steps)), steps.counts)[records]
    batch_ids = pa.array(np.full(len(records), batch_id))
    return pa.table([*take_keys(steps.keys, key), *columns, batch_ids], schema=schema)

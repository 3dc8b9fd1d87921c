"""What an operator does with its records: the one thing in which kinds of operators differ.

Packing, shuffle, shards, runs, merges, sweeps, sidecar and reading back know none of it. A kind
says which columns it reads, what of a record travels, what a life keeps, and what is shown of it.

A record is *lifted* to one row of the `carried` columns where it is packed. A `LifeKind` also says
how rows of one step are *combined*, there and again where packets meet, and what `of_lives` makes
in the shard of the stored lives and the carried rows. For other kinds, the operator's step
(`idlestate.backends.shards.operator_step`) does this.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.runs.table_schema import Column, KeyColumns, TableSchema
from idlestate.backends.shards import remembered_keys
from idlestate.backends.shards.aggregates import Aggregate
from idlestate.backends.shards.function_state_columns import StateColumns
from idlestate.backends.shards.shard_record import OPEN, REMEMBERED
from idlestate.retention.lives import DividedLives

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

INPUT_NUMBER = "__input"
"""The column of records that says from which of two inputs they are: 0 or 1."""


class OperatorKind(Protocol):
    """A kind of operator, bound to the columns of one input. Travels to tasks."""

    @property
    def name(self) -> str:
        """As it is written down: `aggregate`."""

    @property
    def aggregates(self) -> tuple[Aggregate | StateColumns, ...]:
        """What is shown of a life, as a definition is written down and as it may change."""

    @property
    def inputs(self) -> Mapping[str, pa.DataType]:
        """The columns it reads besides keys and order, with their types."""

    @property
    def carried_as_given(self) -> Mapping[str, pa.DataType]:
        """The `inputs` that travel as they are and belong to no aggregate. Records that wait for
        their turn keep them, so a changed definition may only widen their types.
        """

    @property
    def in_lists(self) -> tuple[Aggregate, ...]:
        """Aggregates whose columns a life keeps in lists. These cannot be widened as they are read,
        so the columns keep their types.
        """

    @property
    def orders_steps(self) -> bool:
        """Whether the order columns order the records of one time; else they are one step."""

    @property
    def carried(self) -> tuple[Column, ...]:
        """The columns of a step, from where it is packed to its shard."""

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns of a life that the table keeps; an expire row shows these alone."""

    @property
    def results(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The columns shown of a life, after its keys."""

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:
        """The carried columns of single records; of reads only that they were there."""

    def at(self, carried: list[Field], t_ms: int) -> list[Field]:
        """The same as if all records were of this time (ms)."""

    def result(self, life: list[Field]) -> list[pa.Array]:
        """The `results` of lives.

        Raises:
            SumOverflowError: a result does not fit its type.
        """

    def tables(self, keys: KeyColumns, stored: tuple[Column, ...]) -> dict[str, TableSchema]:
        """The tables of a shard, by name. Those in `LIVES` have open lives; the second of these is
        of a second input with retention of its own.

        Args:
            keys: the key columns.
            stored: its `stored` columns, with the ids that they have in files.
        """

    def whole(self, rows: Rows, tables: Mapping[str, Runs]) -> Rows:
        """Lives with what the tables of their entries keep of them in their rows.

        Args:
            rows: the lives.
            tables: those of the shard.
        """

    def entry_counts(self, life: Sequence[Field]) -> Mapping[str, Ints]:
        """How many rows lives have in the tables of their entries, by table."""

    @property
    def output(self) -> pa.Schema | None:
        """The columns of the rows that the operator's step emits, if these are all its own: without
        the number of the batch. None: rows of lives, or those of `EmitsRows`.
        """


class KindDefaults:
    """What a kind says of some members of `OperatorKind` unless it differs from most."""

    orders_steps = True
    """See `OperatorKind`."""
    output: pa.Schema | None = None
    """See `OperatorKind`."""

    @property
    def carried_as_given(self) -> Mapping[str, pa.DataType]:
        """See `OperatorKind`: none."""
        return {}

    @property
    def in_lists(self) -> tuple[Aggregate, ...]:
        """See `OperatorKind`: none."""
        return ()

    def tables(self, keys: KeyColumns, stored: tuple[Column, ...]) -> dict[str, TableSchema]:
        """See `OperatorKind`: open lives, and keys that ended."""
        return {OPEN: TableSchema(keys, stored), REMEMBERED: remembered_keys.SCHEMA}

    def whole(self, rows: Rows, tables: Mapping[str, Runs]) -> Rows:  # noqa: ARG002
        """See `OperatorKind`: as they are."""
        return rows

    def entry_counts(self, life: Sequence[Field]) -> Mapping[str, Ints]:  # noqa: ARG002
        """See `OperatorKind`: none."""
        return {}


@runtime_checkable
class LifeKind(OperatorKind, Protocol):
    """A kind that says what a life is after a batch, for all lives at once."""

    @property
    def writes_once(self) -> bool:
        """Whether the record that begins a life is its one write, and all others are reads."""

    @property
    def combines(self) -> bool:
        """Whether rows of one step are combined; else each row is a step."""

    @property
    def life(self) -> tuple[Column, ...]:
        """The columns of a life while a batch works on it; `stored` are some of them."""

    def combined(self, carried: list[Field], starts: Ints) -> list[Field]:
        """Rows that are one step as one row each; a step's rows go from one start to the next."""

    def of_lives(self, old: list[Field], carried: list[Field], walk: DividedLives) -> list[Field]:
        """What each life of the walk is after the batch.

        Args:
            old: the `life` columns of the lives that were stored.
            carried: the rows of the batch.
            walk: how rows, stored lives first, fall into lives.
        """

    def shown(self, walk: DividedLives, is_over: Flags) -> Flags:
        """Which lives of the walk an update shows; `is_over` says which ones the batch ends."""

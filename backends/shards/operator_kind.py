"""What an operator does with its records: the only thing in which kinds of operators differ.

Packing, shuffle, shards, runs, merges, sweeps, sidecar and `read_state` do not depend on it. A kind
defines which columns it reads, what is shuffled of a record, what a life stores, and what is shown.

A record is *lifted* to one row of the `carried` columns where it is packed. A `LifeKind` also
defines how rows of one step are *combined*, both there and when packets are merged, and how
`of_lives` computes lives in the shard from stored lives and carried rows. For other kinds, the
operator's step (`idlestate.backends.shards.operator_step`) does this.
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
"""The column with the number of a record's input: 0 or 1."""


class OperatorKind(Protocol):
    """A kind of operator, bound to the columns of one input. Spark ships it to tasks."""

    @property
    def name(self) -> str:
        """The name in a definition, such as `aggregate`."""

    @property
    def aggregates(self) -> tuple[Aggregate | StateColumns, ...]:
        """What is shown of a life, as the definition stores it; it may change."""

    @property
    def inputs(self) -> Mapping[str, pa.DataType]:
        """The columns that it reads in addition to key and order columns, with their types."""

    @property
    def carried_as_given(self) -> Mapping[str, pa.DataType]:
        """The `inputs` that are carried unchanged and belong to no aggregate. Waiting records
        contain them, so a changed definition may only widen their types.
        """

    @property
    def in_lists(self) -> tuple[Aggregate, ...]:
        """Aggregates whose columns a life stores as lists. Lists cannot be widened on reading, so
        the columns must keep their types.
        """

    @property
    def orders_steps(self) -> bool:
        """Whether the order columns order the records of one time; else they are one step."""

    @property
    def carried(self) -> tuple[Column, ...]:
        """The columns of a step between packing and its shard."""

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns of a life that the table stores; an expire row is computed from these
        alone.
        """

    @property
    def results(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The columns shown of a life, after its keys."""

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:
        """The carried columns of single records; a read contributes only its presence."""

    def at(self, carried: list[Field], t_ms: int) -> list[Field]:
        """The same columns as if all records had this time (ms)."""

    def result(self, life: list[Field]) -> list[pa.Array]:
        """The `results` of lives.

        Raises:
            SumOverflowError: a result does not fit its type.
        """

    def tables(self, keys: KeyColumns, stored: tuple[Column, ...]) -> dict[str, TableSchema]:
        """The tables of a shard, by name. Those in `LIVES` hold open lives; the second one belongs
        to a second input with its own retention.

        Args:
            keys: the key columns.
            stored: its `stored` columns, with their ids in files.
        """

    def whole(self, rows: Rows, tables: Mapping[str, Runs]) -> Rows:
        """Lives with the contents of their entry tables moved into their rows.

        Args:
            rows: the lives.
            tables: the tables of the shard.
        """

    def entry_counts(self, life: Sequence[Field]) -> Mapping[str, Ints]:
        """The number of rows that lives have in their entry tables, by table."""

    @property
    def output(self) -> pa.Schema | None:
        """The columns of the emitted rows, without the batch number, if the operator's step defines
        all of them. None: rows of lives, or those of `EmitsRows`.
        """


class KindDefaults:
    """Defaults for members of `OperatorKind` that most kinds share."""

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
    """A kind that computes all lives after a batch at once."""

    @property
    def writes_once(self) -> bool:
        """Whether only the record that begins a life is a write, and all others are reads."""

    @property
    def combines(self) -> bool:
        """Whether rows of one step are combined; else each row is a step."""

    @property
    def life(self) -> tuple[Column, ...]:
        """The columns of a life while a batch is processed; `stored` is a subset."""

    def combined(self, carried: list[Field], starts: Ints) -> list[Field]:
        """One row per step; a step's rows go from one start to the next."""

    def of_lives(self, old: list[Field], carried: list[Field], walk: DividedLives) -> list[Field]:
        """Each life of the walk after the batch.

        Args:
            old: the `life` columns of the lives that were stored.
            carried: the rows of the batch.
            walk: how rows, stored lives first, fall into lives.
        """

    def shown(self, walk: DividedLives, is_over: Flags) -> Flags:
        """Which lives of the walk are shown as updates; `is_over` marks those that the batch
        ends.
        """

"""The specification of an operator, as its shards see it."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.sweeps import timed
from idlestate.backends.runs.table_schema import Column, KeyColumns, TableSchema
from idlestate.backends.shards.aggregates import Aggregate
from idlestate.backends.shards.operator_kind import LifeKind, OperatorKind
from idlestate.backends.shards.own_accumulator import Classes, OwnAccumulator
from idlestate.backends.shards.shard_record import HELD, LIVES, OPEN, RIGHT
from idlestate.retention.lives import Lives
from idlestate.retention.policy import Policies, Policy
from idlestate.retention.windows import WINDOW_END, WINDOW_START, Windows

Ints = npt.NDArray[np.int64]
TIMESTAMP = pa.timestamp("us", tz="UTC")
_HELD = TableSchema(
    columns=(
        Column("rows", np.zeros(1, dtype=np.int64)),
        Column("packet", pa.nulls(1, pa.large_binary())),
    ),
    is_log=True,
    counted_by="rows",
)
"""Waiting rows, stored as packets of many rows (`idlestate.backends.shards.held_rows`)."""


@dataclass(frozen=True)
class TableSpec:
    """Key columns, the kind of operator, and the columns that order records with equal times."""

    keys: KeyColumns
    kind: OperatorKind
    order: tuple[tuple[str, pa.DataType], ...] = ()
    window: Windows | None = None
    """The windows in which records are aggregated; if they have a fixed span, their end is the last
    key.
    """
    fire_after_ms: int | None = None
    """How far past its end the newest record is when a window is first shown (`early_results`);
    None: it is shown at once; `FOREVER_MS`: only its final result is."""
    in_order: bool = False
    """Whether rows wait until the watermark reaches them, and are processed in order of time."""
    numbers: tuple[tuple[str, int], ...] = ()
    """Stored columns that a later start added and that may return, with the prefixes of their ids
    in files, so that values of a dropped column are never read again.
    """

    @classmethod
    def of_windows(
        cls,
        keys: KeyColumns,
        kind: OperatorKind,
        order: tuple[tuple[str, pa.DataType], ...],
        window: Windows | None,
        fire_after_ms: int | None = None,
        *,
        in_order: bool = False,
        numbers: tuple[tuple[str, int], ...] = (),
    ) -> "TableSpec":
        """The spec for records with these key columns."""
        if window is not None and not window.is_session:
            keys = (*keys, (WINDOW_END, TIMESTAMP))
        return cls(keys, kind, order, window, fire_after_ms, in_order, numbers)

    @cached_property
    def life_kind(self) -> LifeKind:
        """The kind, for an operator with a `LifeKind`."""
        assert isinstance(self.kind, LifeKind)
        return self.kind

    @property
    def fixed_window(self) -> Windows | None:
        """The windows, if they have a fixed span."""
        return None if self.window is None or self.window.is_session else self.window

    @cached_property
    def given_keys(self) -> KeyColumns:
        """The key columns of records."""
        return self.keys if self.fixed_window is None else self.keys[:-1]

    @cached_property
    def shown_keys(self) -> KeyColumns:
        """The columns that are shown of a life before its results."""
        if self.window is None:
            return self.keys
        return (*self.given_keys, (WINDOW_START, TIMESTAMP), (WINDOW_END, TIMESTAMP))

    @property
    def step_order(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The order columns of steps; the records of a window are one step, in whatever order."""
        return self.order if self.kind.orders_steps and self.fixed_window is None else ()

    @property
    def ends_by_batches(self) -> bool:
        """Whether lives end only in batches, because waiting rows may precede a deadline, or the
        operator's own step is needed.
        """
        return self.in_order or self.has_own_step

    @cached_property
    def has_own_step(self) -> bool:
        """Whether a batch needs a step other than that of the table (`OperatorStep`)."""
        return not isinstance(self.kind, LifeKind)

    @property
    def is_of_sides(self) -> bool:
        """Whether keys have rows of two inputs, each with its own retention, instead of lives. Such
        a row also ends once no partner can arrive any more.
        """
        return RIGHT in self.tables

    @property
    def key_names(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return tuple(name for name, _ in self.keys)

    @property
    def own(self) -> dict[str, OwnAccumulator]:
        """Users' accumulators by the names of their results."""
        pairs = [
            (each.name, each.accumulator)
            for each in self.kind.aggregates
            if isinstance(each, Aggregate)
        ]
        return {name: each for name, each in pairs if isinstance(each, OwnAccumulator)}

    @property
    def classes(self) -> Classes:
        """The classes of users' accumulators."""
        return {each.reference: type(each.made) for each in self.own.values()}

    @cached_property
    def inputs(self) -> dict[str, pa.DataType]:
        """Every column that keys, kind and order read, with its type."""
        return dict(self.given_keys) | dict(self.order) | dict(self.kind.inputs)

    @cached_property
    def schema(self) -> TableSchema:
        """The columns of the table of open lives."""
        return self.tables[OPEN]

    def open_lives(self, policies: Policies) -> dict[str, Policy]:
        """The tables of open lives, each with the policy used to index and sweep its lives.

        Args:
            policies: those in force.
        """
        names = [name for name in LIVES if name in self.tables]
        found = dict(zip(names, policies, strict=False))
        if not self.has_own_step:
            return found
        return {name: timed(policy) for name, policy in found.items()}

    def ends_ms(self, lives: Lives, policy: Policy) -> Ints:
        """When lives end under a policy: join rows also end once no partner can arrive any more; a
        function's timers do not end its lives.
        """
        if self.is_of_sides:
            return lives.due_ms(policy)
        return lives.ends(policy).deadline_ms

    @cached_property
    def may_return(self) -> tuple[str, ...]:
        """The stored columns that may return, by the ids that the kind assigns."""
        held = self.kind.carried if self.in_order else ()
        return tuple(each.id for each in (*self.kind.stored, *held) if each.may_return)

    @cached_property
    def carried(self) -> tuple[Column, ...]:
        """The carried columns, with their ids in stored packets."""
        return self._in_files(self.kind.carried)

    @cached_property
    def tables(self) -> dict[str, TableSchema]:
        """The tables of a shard, by name."""
        found = self.kind.tables(self.keys, self._in_files(self.kind.stored))
        return found | ({HELD: _HELD} if self.in_order else {})

    def _in_files(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        numbers = dict(self.numbers)
        return tuple(
            replace(each, id=f"{numbers[each.id]}.{each.id}") if each.id in numbers else each
            for each in columns
        )

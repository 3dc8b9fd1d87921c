"""The kind of operator behind `join`: rows of two inputs with equal keys are emitted in pairs.

A row of the left input at time l and one of the right at r match if r - l is within `between` and
each is still kept at the time of the later one. This depends only on the two times, so rows need
not be processed in order: a pair is emitted when its second row arrives, whichever that is. A row
leaves the state once the watermark has passed the time of its last possible partner, or the end set
by its input's policy.

In packets, left rows are writes and right rows are reads.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field
from idlestate.backends.runs.table_schema import Column, KeyColumns, TableSchema
from idlestate.backends.shards import remembered_keys
from idlestate.backends.shards.aggregates import Aggregate, bind
from idlestate.backends.shards.emitted_rows import EmitsRows
from idlestate.backends.shards.shard_record import (
    MATCHED,
    OPEN,
    REMEMBERED,
    RIGHT,
    RIGHT_MATCHED,
)
from idlestate.config.sql.aggregate_text import Call, parse_call
from idlestate.retention.durations import format_duration, parse_duration

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Between = tuple[int, int]
"""The least and the greatest time (ms) from a left row to a right row that matches it."""

HOW = ("inner", "left", "right", "full", "semi", "anti")
JOIN = "join "
"""Prefix of the names of these kinds."""
NUMBER = Column("number", np.full(1, -1))
"""Distinguishes the rows of one key; -1 if the row has matched, or its input does not track
matches.
"""
FAR_MS = 1 << 62
"""A span longer than that between any two times."""
_NAME = re.compile(JOIN + r"(\w+)(?: between (-?)(\w+) and (-?)(\w+))?")


@dataclass(frozen=True, slots=True)
class JoinInput:
    """How a join treats the rows of one input."""

    table: str
    """The table of its rows."""
    matched: str
    """The table of matched rows."""
    columns: tuple[Aggregate, ...]
    reach_ms: int
    """How long after a row its last partner may occur; negative if before it."""
    is_kept_unmatched: bool
    """Whether a row that finds no match is emitted."""
    counts_matches: bool
    """Whether matches of a row are tracked."""

    def schema(self, keys: KeyColumns) -> TableSchema:
        """The schema of its rows in state."""
        number = (NUMBER,) * self.counts_matches
        return TableSchema(keys, (*number, *map(_column, self.columns)), is_log=True)


@dataclass(frozen=True)
class StreamJoin(EmitsRows):
    """See `idlestate.backends.shards.operator_kind.OperatorKind`.

    A definition stores columns of the left input as `first` aggregates, those of the right input as
    `last`.
    """

    how: str
    between: Between | None
    """None: rows match at any distance in time, as long as both are kept."""
    left_columns: tuple[Aggregate, ...]
    right_columns: tuple[Aggregate, ...]

    orders_steps = False

    @classmethod
    def of(cls, name: str, aggregates: Sequence[Aggregate]) -> "StreamJoin | None":
        """The kind with these columns, bound as in a definition; None if the name belongs to
        another kind.
        """
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        how, *bounds = found.groups()
        between = None
        if bounds[1] is not None:
            low, high = (
                -parse_duration(span) if sign else parse_duration(span)
                for sign, span in (bounds[:2], bounds[2:])
            )
            between = (low, high)
        is_left = [parse_call(each.text).function == "first" for each in aggregates]
        left, right = (
            tuple(each for each, flag in zip(aggregates, is_left, strict=True) if flag is wanted)
            for wanted in (True, False)
        )
        return cls(how, between, left, right)

    @property
    def name(self) -> str:
        """See `OperatorKind`."""
        if self.between is None:
            return f"{JOIN}{self.how}"
        low, high = map(_signed, self.between)
        return f"{JOIN}{self.how} between {low} and {high}"

    @cached_property
    def inputs_of(self) -> tuple[JoinInput, JoinInput]:
        """The left and the right input."""
        low_ms, high_ms = self.between or (-FAR_MS, FAR_MS)
        left_unmatched = self.how in ("left", "full", "anti")
        right_unmatched = self.how in ("right", "full")
        return (
            JoinInput(
                *(OPEN, MATCHED, self.left_columns, high_ms, left_unmatched),
                counts_matches=left_unmatched or self.how == "semi",
            ),
            JoinInput(
                *(RIGHT, RIGHT_MATCHED, self.right_columns, -low_ms, right_unmatched),
                counts_matches=right_unmatched,
            ),
        )

    @property
    def emits_pairs(self) -> bool:
        """Whether it emits rows of both inputs; otherwise only left rows."""
        return self.how not in ("semi", "anti")

    def tables(
        self,
        keys: KeyColumns,
        stored: tuple[Column, ...],  # noqa: ARG002
    ) -> dict[str, TableSchema]:
        """See `OperatorKind`: the rows of each input, and which of them have matched."""
        found = {REMEMBERED: remembered_keys.SCHEMA}
        for each in self.inputs_of:
            found[each.table] = each.schema(keys)
            if each.counts_matches:
                found[each.matched] = TableSchema((), (NUMBER,), is_log=True)
        return found

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """See `OperatorKind`."""
        return (*self.left_columns, *self.right_columns)

    @cached_property
    def inputs(self) -> Mapping[str, pa.DataType]:
        """See `OperatorKind`."""
        return {each.name: each.result_type for each in self.aggregates}

    @cached_property
    def carried(self) -> tuple[Column, ...]:
        """See `OperatorKind`: the columns of both inputs."""
        return tuple(map(_column, self.aggregates))

    @cached_property
    def stored(self) -> tuple[Column, ...]:
        """See `OperatorKind`: for left rows."""
        return self.inputs_of[0].schema(()).columns

    @cached_property
    def results(self) -> KeyColumns:
        """See `OperatorKind`: what is shown of rows in state."""
        return tuple((each.name, each.result_type) for each in self.aggregates)

    @property
    def emitted(self) -> KeyColumns:
        """See `EmitsRows`."""
        return self.results

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:  # noqa: ARG002
        """See `OperatorKind`."""
        return [values[each.name] for each in self.aggregates]

    def at(self, carried: list[Field], t_ms: int) -> list[Field]:
        """See `OperatorKind`; joins use event time."""
        raise NotImplementedError

    def result(self, life: list[Field]) -> list[pa.Array]:
        """See `OperatorKind`."""
        return life


def stream_join(
    how: str,
    between: Between | None,
    left: Sequence[str],
    right: Sequence[str],
    types: Mapping[str, pa.DataType],
) -> StreamJoin:
    """The kind that joins rows with these columns.

    Args:
        how: one of `HOW`; `semi` and `anti` need no right columns.
        between: the least and the greatest time (ms) from a left row to a right one.
        left, right: columns other than keys; no name may occur in both.
        types: column name to Arrow type.

    Raises:
        AggregateError: the type of a column cannot be stored.
    """
    texts = {name: Call("first", (name,)).of((name,)) for name in left}
    texts |= {name: Call("last", (name,)).of((name,)) for name in right}
    bound = bind(texts, types)
    return StreamJoin(how, between, bound[: len(left)], bound[len(left) :])


def _column(each: Aggregate) -> Column:
    return Column(f"a{each.id}", pa.nulls(1, each.result_type))


def _signed(span_ms: int) -> str:
    return f"-{format_duration(-span_ms)}" if span_ms < 0 else format_duration(span_ms)

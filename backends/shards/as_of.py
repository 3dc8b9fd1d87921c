"""The kind of operator behind `join_asof`: a life keeps the newest version of its key, and each
probe is emitted with the version that applies at its time.

A version is a write and a probe is a read; at equal times, versions come first. Versions with the
same time are one step: the last of them, by the order columns and then by value, counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, join, take
from idlestate.backends.runs.table_schema import Column, KeyColumns
from idlestate.backends.shards.aggregates import Aggregate, bind
from idlestate.backends.shards.deduplication import Deduplication, Keep
from idlestate.backends.shards.emitted_rows import EmitsRecords
from idlestate.config.sql.aggregate_text import Call, parse_call
from idlestate.retention.lives import DividedLives

if TYPE_CHECKING:
    from idlestate.backends.shards.steps_by_key import Steps

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
HOW = ("inner", "left")


@dataclass(frozen=True)
class AsOf(EmitsRecords):
    """See `idlestate.backends.shards.operator_kind.LifeKind`.

    A definition stores version columns as `last` aggregates and probe columns as `first`
    aggregates.
    """

    versions: Deduplication
    """Keeps the last version."""
    probes: tuple[Aggregate, ...]
    is_left: bool
    """Whether probes without a version are emitted too."""

    orders_steps = False

    @classmethod
    def of(cls, how: str, aggregates: Sequence[Aggregate], order: tuple[str, ...]) -> "AsOf":
        """The kind with these columns, bound as in a definition.

        Args:
            how: `inner` or `left`.
            aggregates: version and probe columns.
            order: the version columns that order versions with the same time.
        """
        is_version = [parse_call(each.text).function == Keep.LAST.value for each in aggregates]
        versions, probes = (
            tuple(each for each, flag in zip(aggregates, is_version, strict=True) if flag is wanted)
            for wanted in (True, False)
        )
        return cls(Deduplication(Keep.LAST, versions, order), probes, how == "left")

    @property
    def name(self) -> str:
        """See `OperatorKind`."""
        return f"as-of {HOW[self.is_left]}"

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """See `OperatorKind`."""
        return (*self.versions.aggregates, *self.probes)

    @property
    def writes_once(self) -> bool:
        """See `LifeKind`."""
        return False

    @property
    def combines(self) -> bool:
        """See `LifeKind`: versions with the same time."""
        return True

    @cached_property
    def inputs(self) -> Mapping[str, pa.DataType]:
        """See `OperatorKind`."""
        return dict(self.versions.inputs) | {each.name: each.result_type for each in self.probes}

    @cached_property
    def carried(self) -> tuple[Column, ...]:
        """See `OperatorKind`: the version's columns, then the probe's."""
        probes = (Column(f"a{each.id}", pa.nulls(1, each.result_type)) for each in self.probes)
        return (*self.versions.carried, *probes)

    @property
    def life(self) -> tuple[Column, ...]:
        """See `LifeKind`."""
        return self.versions.carried

    @property
    def stored(self) -> tuple[Column, ...]:
        """See `OperatorKind`."""
        return self.versions.carried

    @property
    def results(self) -> KeyColumns:
        """See `OperatorKind`."""
        return self.versions.results

    @cached_property
    def emitted(self) -> KeyColumns:
        """See `EmitsRecords`."""
        probes = ((each.name, each.result_type) for each in self.probes)
        return (*probes, *self.versions.results)

    def lift(self, values: Mapping[str, pa.Array], is_write: Flags, t_ms: Ints) -> list[Field]:
        """See `OperatorKind`."""
        version = self.versions.lift(values, is_write, t_ms)
        return version + [values[each.name] for each in self.probes]

    def at(self, carried: list[Field], t_ms: int) -> list[Field]:
        """See `OperatorKind`."""
        return self.versions.at(carried[: self._width], t_ms) + carried[self._width :]

    def combined(self, carried: list[Field], starts: Ints) -> list[Field]:
        """See `LifeKind`; a probe is always a step of its own."""
        versions = self.versions.combined(carried[: self._width], starts)
        return versions + [take(field, starts) for field in carried[self._width :]]

    def of_lives(self, old: list[Field], carried: list[Field], walk: DividedLives) -> list[Field]:
        """See `LifeKind`."""
        return self.versions.of_lives(old, carried[: self._width], walk)

    def shown(self, walk: DividedLives, is_over: Flags) -> Flags:  # noqa: ARG002
        """See `LifeKind`: none, because records are shown instead of lives."""
        return np.zeros(len(is_over), dtype=bool)

    def result(self, life: list[Field]) -> list[pa.Array]:
        """See `OperatorKind`."""
        return self.versions.result(life)

    def is_emitted(self, is_read: Flags) -> Flags:
        """See `EmitsRecords`: probes."""
        return is_read

    def rows(
        self, old: list[Field], steps: "Steps", walk: DividedLives
    ) -> tuple[Ints, list[pa.Array]]:
        """See `EmitsRecords`: each probe with the last version before it whose life is open."""
        m, n, carried = len(old[0]), len(steps.t_ms), steps.carried
        is_read = np.zeros(n, dtype=bool) if steps.is_read is None else steps.is_read
        is_probe = np.concatenate([np.zeros(m, dtype=bool), is_read])[walk.source]
        at = np.arange(len(is_probe))
        version = np.maximum.accumulate(np.where(is_probe, 0, at))
        probe = at[is_probe]
        records = walk.source[probe] - m
        is_matched = ~walk.is_trackless[records]
        if not self.is_left:
            probe, records, is_matched = (
                probe[is_matched],
                records[is_matched],
                is_matched[is_matched],
            )
        found = pa.array(walk.source[version[probe]], mask=~is_matched)
        columns = [take(field, records) for field in carried[self._width :]]
        for stored, added in zip(old[1:], carried[1 : self._width], strict=True):
            columns.append(join([stored, added]).take(found))
        return records, columns

    @property
    def _width(self) -> int:
        return len(self.versions.carried)


def as_of(
    how: str,
    probes: Sequence[str],
    versions: Sequence[str],
    types: Mapping[str, pa.DataType],
    order: tuple[str, ...] = (),
) -> AsOf:
    """The kind that joins probes with these columns to versions with these.

    Args:
        how: `inner` or `left`.
        probes, versions: columns other than keys.
        types: column name to Arrow type.
        order: version columns that order versions with the same time.

    Raises:
        AggregateError: a type cannot be compared.
    """
    texts = {name: Call(Keep.LAST.value, (name,)).of((name,)) for name in versions}
    texts |= {name: Call(Keep.FIRST.value, (name,)).of((name,)) for name in probes}
    return AsOf.of(how, bind(texts, types, order), order)

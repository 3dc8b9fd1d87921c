"""Steps: the records of a batch, grouped by key and put in sequence.

Records of one key that are equal in time, order columns and kind (write or read) are one step and
may be added up before anything else happens to them. Distinct keys are determined once and sorted
by hash, so a shard, which is a range of hashes, is a slice.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, join, slice_field, take
from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.runs.keys import Distinct, Keys, find_distinct, take_keys
from idlestate.backends.runs.row_order import order_of
from idlestate.backends.runs.value_order import order_keys
from idlestate.backends.shards.emitted_rows import EmitsRecords
from idlestate.backends.shards.operator_kind import LifeKind, OperatorKind
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Steps:
    """k keys sorted by hash; key i owns the next `counts[i]` of n rows, in sequence."""

    hashes: Ints
    keys: list[pa.Array]
    counts: Ints
    t_ms: Ints
    is_read: Flags | None
    """Which rows are reads; None if all are writes."""
    order: list[pa.Array]
    carried: list[Field]
    """The columns that the operator's kind carries for each row."""
    newest_ms: int = NEVER_MS
    """The highest event time among all rows of the tasks that packed these."""

    @classmethod
    def from_records(
        cls,
        spec: TableSpec,
        keys: Keys,
        times_ms: Ints,
        values: Mapping[str, pa.Array],
        *,
        reads: Flags | None = None,
        order: Sequence[pa.Array] = (),
        hashes: Ints | None = None,
        sort: bool = True,
    ) -> "Steps":
        """Group n records.

        Args:
            spec: the table's spec.
            keys: the key columns, n rows each.
            times_ms: event or batch time per record.
            values: the columns that the kind reads, by name.
            reads: which records are reads; None if all are writes.
            order: the columns of `TableSpec.step_order`.
            hashes: the key hashes, if known; otherwise they are computed.
            sort: whether to sort by time, order and kind, as a pipeline does; otherwise the input
                order is kept.
        """
        n = len(times_ms)
        if hashes is None:
            hashes = hash_keys(keys)
        if reads is not None and not reads.any():
            reads = None
        is_write = np.ones(n, dtype=bool) if reads is None else ~reads
        values = dict(values) | {
            name: column for (name, _), column in zip(spec.step_order, order, strict=True)
        }
        carried = spec.kind.lift(values, is_write, times_ms)
        return grouped(hashes, keys, None, times_ms, reads, list(order), carried, sort)

    @classmethod
    def empty(cls, spec: TableSpec) -> "Steps":
        """No records."""
        none = np.zeros(0, dtype=np.int64)
        values = {name: pa.array([], kind) for name, kind in spec.kind.inputs.items()}
        order = [pa.array([], kind) for _, kind in spec.step_order]
        keys = [pa.array([], kind) for _, kind in spec.keys]
        steps = cls.from_records(spec, keys, none, values, order=order, hashes=none)
        return replace(steps, order=steps.order[: len(spec.step_order)])

    def __len__(self) -> int:
        return len(self.hashes)

    def at(self, t_ms: int, kind: OperatorKind) -> "Steps":
        """The same records, all with this time (ms)."""
        carried = kind.at(self.carried, t_ms)
        return replace(self, t_ms=np.full(len(self.t_ms), t_ms), carried=carried)

    def slice(self, first: int, stop: int) -> "Steps":
        """The steps of keys first..stop."""
        return self.slices(np.array([first, stop]))[0]

    def slices(self, bounds: Ints) -> list["Steps"]:
        """The steps of the keys between each bound and the next; bounds ascend."""
        rows = np.concatenate([[0], np.cumsum(self.counts)])[bounds]
        spans = itertools.pairwise(zip(bounds.tolist(), rows.tolist(), strict=True))
        return [
            Steps(
                self.hashes[first:stop],
                [column.slice(first, stop - first) for column in self.keys],
                self.counts[first:stop],
                self.t_ms[begin:end],
                None if self.is_read is None else self.is_read[begin:end],
                [column.slice(begin, end - begin) for column in self.order],
                [slice_field(field, begin, end) for field in self.carried],
                self.newest_ms,
            )
            for (first, begin), (stop, end) in spans
        ]

    def take(self, keys: Flags) -> "Steps":
        """The steps of some keys."""
        if keys.all():
            return self
        rows = np.flatnonzero(np.repeat(keys, self.counts))
        return Steps(
            self.hashes[keys],
            take_keys(self.keys, np.flatnonzero(keys)),
            self.counts[keys],
            self.t_ms[rows],
            None if self.is_read is None else self.is_read[rows],
            take_keys(self.order, rows),
            [take(field, rows) for field in self.carried],
            self.newest_ms,
        )

    def of_rows(self, chosen: Flags) -> "Steps":
        """The steps of some rows, and their keys."""
        if chosen.all():
            return self
        key = np.repeat(np.arange(len(self)), self.counts)
        counts = np.bincount(key[chosen], minlength=len(self))
        has_rows = counts > 0
        reads = None if self.is_read is None else self.is_read[chosen]
        rows = np.flatnonzero(chosen)
        return Steps(
            self.hashes[has_rows],
            take_keys(self.keys, np.flatnonzero(has_rows)),
            counts[has_rows],
            self.t_ms[rows],
            reads if reads is not None and reads.any() else None,
            take_keys(self.order, rows),
            [take(field, rows) for field in self.carried],
            self.newest_ms,
        )

    def begins(self) -> Flags:
        """Whether each row is the first of its step; there must be at least one row."""
        begins = np.zeros(len(self.t_ms), dtype=bool)
        begins[np.cumsum(self.counts) - self.counts] = True
        begins[1:] |= self.t_ms[1:] != self.t_ms[:-1]
        if self.is_read is not None:
            begins[1:] |= self.is_read[1:] != self.is_read[:-1]
        for column in self.order:
            for code in order_keys(column):
                begins[1:] |= code[1:] != code[:-1]
        return begins

    def collapsed(self, kind: OperatorKind, *, least: float = 0) -> "Steps":
        """The same steps with the rows of each step combined into one row.

        Args:
            kind: the operator's kind.
            least: the least share of rows that this must save; otherwise the rows stay unchanged.
        """
        n = len(self.t_ms)
        if n == 0 or not isinstance(kind, LifeKind) or not kind.combines:
            return self
        starts = np.cumsum(self.counts) - self.counts
        begins = self.begins()
        if isinstance(kind, EmitsRecords):
            begins |= kind.is_emitted(np.zeros(n, bool) if self.is_read is None else self.is_read)
        first = np.flatnonzero(begins)
        if len(first) == n or n - len(first) < least * n:
            return self
        return replace(
            self,
            counts=np.add.reduceat(begins.astype(np.int64), starts),
            t_ms=self.t_ms[first],
            is_read=None if self.is_read is None else self.is_read[first],
            order=[column.take(pa.array(first)) for column in self.order],
            carried=kind.combined(self.carried, first),
        )

    @staticmethod
    def merged(parts: Sequence["Steps"]) -> "Steps":
        """The steps of several tasks as one, sorted as a pipeline does."""
        return parts[0] if len(parts) == 1 else Steps.joined(parts).regrouped()

    @staticmethod
    def joined(parts: Sequence["Steps"]) -> "Steps":
        """The steps of several tasks, concatenated: a key may occur more than once, and hashes are
        sorted only within each part.
        """
        if len(parts) == 1:
            return parts[0]
        reads = None
        if any(part.is_read is not None for part in parts):
            reads = np.concatenate(
                [np.zeros(len(p.t_ms), bool) if p.is_read is None else p.is_read for p in parts]
            )
        return Steps(
            np.concatenate([part.hashes for part in parts]),
            [pa.concat_arrays(list(each)) for each in zip(*(p.keys for p in parts), strict=True)],
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.t_ms for part in parts]),
            reads,
            [pa.concat_arrays(list(c)) for c in zip(*(p.order for p in parts), strict=True)],
            [join(fields) for fields in zip(*(p.carried for p in parts), strict=True)],
            max(part.newest_ms for part in parts),
        )

    def regrouped(self) -> "Steps":
        """Joined steps by key, sorted as a pipeline does."""
        steps = grouped(
            self.hashes,
            self.keys,
            np.repeat(np.arange(len(self)), self.counts),
            self.t_ms,
            self.is_read,
            self.order,
            self.carried,
            sort=True,
        )
        return replace(steps, newest_ms=self.newest_ms)


def grouped(
    hashes: Ints,
    keys: Keys,
    key_of_row: Ints | None,
    t_ms: Ints,
    reads: Flags | None,
    order: list[pa.Array],
    carried: list[Field],
    sort: bool,
) -> Steps:
    """Rows by key; with `key_of_row` None, each row has its own key.

    Args:
        hashes, keys: the keys of rows, or those that `key_of_row` refers to.
        key_of_row: the index of each row's key.
        t_ms, reads, order, carried: the rows.
        sort: as in `Steps.from_records`.
    """
    distinct = find_distinct(hashes, keys)
    by_time = key_of_row is None and reads is None and not order
    if sort and not (by_time and _is_in_turn(distinct, t_ms)):
        key = distinct.key if key_of_row is None else distinct.key[key_of_row]
        sequence = _sequence(key, t_ms, reads, order)
    else:
        sequence = distinct.order
    counts = distinct.counts
    if key_of_row is not None:
        counts = np.bincount(distinct.key[key_of_row], minlength=len(counts))
    steps = Steps(
        hashes[distinct.first],
        take_keys(keys, distinct.first),
        counts,
        t_ms,
        reads,
        order,
        carried,
    )
    if bool((sequence[1:] > sequence[:-1]).all()):  # they are already in sequence
        return steps
    return replace(
        steps,
        t_ms=t_ms[sequence],
        is_read=None if reads is None else reads[sequence],
        order=take_keys(order, sequence),
        carried=[take(field, sequence) for field in carried],
    )


def _is_in_turn(rows: Distinct, t_ms: Ints) -> bool:
    """Whether rows are sorted by time, or by key and time."""
    follows = t_ms[1:] >= t_ms[:-1]
    if follows.all():
        return True
    follows &= rows.key[1:] == rows.key[:-1]
    return bool((follows | (rows.key[1:] > rows.key[:-1])).all())


def _sequence(key: Ints, t_ms: Ints, reads: Flags | None, order: list[pa.Array]) -> Ints:
    """Row positions sorted by key, time and order columns, writes before reads."""
    if len(t_ms) == 0:
        return np.zeros(0, dtype=np.int64)
    if order:
        codes = [code for column in order for code in order_keys(column)]
        last = [] if reads is None else [reads]
        return np.lexsort((*last, *reversed(codes), t_ms, key))
    # If it fits 63 bits, one number per row sorts several times faster than several columns.
    low, high = int(t_ms.min()), int(t_ms.max())
    time_bits = (high - low).bit_length() + 1
    bits = int(key.max()).bit_length() + time_bits
    if bits < 63:
        within = (t_ms - low) << 1
        if reads is not None:
            within |= reads
        return order_of((key << time_bits) | within, bits)
    return np.lexsort((t_ms, key) if reads is None else (reads, t_ms, key))

"""A run: rows in order of hash, written at once and never changed.

Its segments are written one by one (`idlestate.backends.runs.segment`) and read as one: the steps
of a look-up do not depend on the number of segments.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.bloom_filter import Filters
from idlestate.backends.runs.byte_source import Ints, Source
from idlestate.backends.runs.due_index import STRIDE, DueIndices, fence_of
from idlestate.backends.runs.keys import Keys, are_equal, take_keys
from idlestate.backends.runs.packed_rows import PackedRows
from idlestate.backends.runs.row_layout import Records, RowLayout, Text, has_nulls
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.stored_rows import StoredRows
from idlestate.backends.runs.sweeps import Sweeps, are_swept, ending, reached_ms, since
from idlestate.backends.runs.table_schema import Column, Reader, TableSchema
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS, is_due


class Revision(Protocol):
    """A change to older rows that does not follow from their columns. The batch with the revision
    rewrites them; until then, sweeps use their stored lives.
    """

    @property
    def schema(self) -> TableSchema:
        """The columns that it reads."""

    @property
    def extras(self) -> frozenset[str]:
        """The optional parts that a layout of revised rows must have, as in `extras_of`."""

    def revised(self, rows: Rows) -> Rows:
        """Rows in the current columns."""


@dataclass(frozen=True)
class Run:
    """The rows of a file, at least one, about 260,000 per segment."""

    stored: StoredRows
    columns: Sequence[Column]
    """The payload columns that are read."""
    reader: Reader
    """Converts these to the current columns."""
    policy: Policy
    """The policy under which its deadlines are indexed."""
    batch_id: int
    """The batch that wrote it: every row was open when that batch had swept."""
    revision: Revision | None = None

    @classmethod
    def of(cls, stored: StoredRows, schema: TableSchema, policy: Policy, batch_id: int) -> "Run":
        """The run of a file, to be read with a schema that may differ from the file's."""
        names = stored.layout.schema.names
        columns = [column for column in schema.columns if column.id in names]
        reader = Reader.of(schema, [column.id for column in columns])
        return cls(stored, columns, reader, policy, batch_id)

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def source(self) -> Source:
        """The file."""
        return self.stored.source

    @property
    def last(self) -> int:
        """The highest hash."""
        return self.stored.segments[-1].last

    @property
    def has_tombstones(self) -> bool:
        """Whether it contains tombstones."""
        return any(segment.has_tombstones for segment in self.stored.segments)

    @property
    def extras(self) -> frozenset[str]:
        """The optional parts that a layout of its rows in the current columns must have."""
        sources = zip(self.reader.schema.columns, self.reader.sources, strict=True)
        blank = [column for column, source in sources if source is None]
        nulls = {f"{each.id}?" for each in blank if has_nulls(each.blank)}
        revised = frozenset() if self.revision is None else self.revision.extras
        return self.stored.layout.extras | nulls | revised

    def with_schema(self, schema: TableSchema) -> "Run":
        """The same rows with other payload columns; new columns are blank."""
        if schema is self.reader.schema:
            return self
        return replace(self, reader=self.reader.with_schema(schema))

    def with_revision(self, revision: Revision) -> "Run":
        """The same rows, revised."""
        run = Run.of(self.stored, revision.schema, self.policy, self.batch_id)
        return replace(run, revision=revision)

    def need_all(self) -> None:
        """Request the entire file."""
        self.source.need(np.array([0]), np.array([self.source.data.size]))

    def look_up(self, hashes: Ints, keys: Keys, at_keys: Ints | None = None) -> Ints:
        """The row of each key, including tombstones; -1 where there is none.

        Args:
            hashes, keys: the keys to look up, in order of hash. Without key columns, the hash is
                the key.
            at_keys: the positions of the keys in the columns; None: the columns contain only these
                keys, in this order.
        """
        found = np.full(len(hashes), -1)
        pending = np.arange(len(hashes))
        if self._filters is not None:
            pending = np.flatnonzero(self._filters.may_hold(hashes))
        at, is_there = self.stored.find(hashes[pending])
        at, pending = at[is_there], pending[is_there]
        while len(pending):
            same = np.ones(len(pending), dtype=bool)
            if keys:
                records, text = self.stored.at(at)
                wanted = keys
                if at_keys is not None:
                    wanted = take_keys(keys, at_keys[pending])
                elif len(pending) < len(hashes):
                    wanted = take_keys(keys, pending)
                same = are_equal(wanted, self.stored.layout.columns(records, self._keys, text))
            found[pending[same]] = at[same]
            if same.all():
                break
            at, pending = at[~same] + 1, pending[~same]
            is_there = self.stored.have(at, hashes[pending])
            at, pending = at[is_there], pending[is_there]
        return found

    def hashes_from(self, since: int, most: int) -> Ints:
        """The lowest hashes from `since` on, at most this many."""
        begin = self.stored.first_at(since)
        return self.stored.hashes(begin, min(begin + most, len(self)))

    def take(self, rows: Ints, *, keys: bool) -> Rows:
        """The rows at these positions, with or without keys.

        Positions ascend, but keys of one hash may come in any order.
        """
        if _are_adjacent(rows):
            return self.slice(int(rows[0]), int(rows[-1]) + 1, keys=keys)
        records, text = self.stored.at(rows)
        return self._read(records, text, keys=keys)

    def packed(
        self, rows: Ints, schema: TableSchema, layout: RowLayout
    ) -> tuple[list[PackedRows], Ints]:
        """The rows at these ascending positions in the layout of a new run, perhaps with rows
        between them, and the positions of these among them.
        """
        is_same = self.stored.layout == layout and None not in self.reader.sources
        if self.revision is not None or not is_same:
            found = PackedRows.of(self.take(rows, keys=True), schema, layout)
            return [found], np.arange(len(rows))
        begin, stop = int(rows[0]), int(rows[-1]) + 1
        if 2 * len(rows) < stop - begin:
            return [PackedRows.read(*self.stored.at(rows), layout)], np.arange(len(rows))
        portions = self.stored.portions(begin, stop)
        return [PackedRows.read(*portion, layout) for portion in portions], rows - begin

    def slice(self, begin: int, stop: int, *, keys: bool = True) -> Rows:
        """The rows begin..stop, at least one, with or without keys."""
        portions = self.stored.portions(begin, stop)
        return Rows.gathered([self._read(*portion, keys=keys) for portion in portions])

    def keys_in_portions(self, begin: int, stop: int) -> Iterator[tuple[Ints, list[pa.Array]]]:
        """The hashes and keys of the rows begin..stop, a segment at a time."""
        for records, text in self.stored.portions(begin, stop):
            yield records["hash"], self.stored.layout.columns(records, self._keys, text)

    def keys_at(self, rows: Ints) -> Iterator[tuple[Ints, list[pa.Array]]]:
        """The hashes and keys of the rows at these positions, which ascend, a segment at a time."""
        for some in np.split(rows, np.searchsorted(rows, self.stored.starts[1:-1])):
            if _are_adjacent(some):
                yield from self.keys_in_portions(int(some[0]), int(some[-1]) + 1)
            elif len(some):
                records, text = self.stored.at(some)
                yield records["hash"], self.stored.layout.columns(records, self._keys, text)

    def are_tombstones(self, begin: int, stop: int) -> npt.NDArray[np.bool_]:
        """Which of the rows begin..stop are tombstones."""
        if not self.has_tombstones:
            return np.zeros(stop - begin, dtype=bool)
        portions = self.stored.portions(begin, stop)
        return np.concatenate([records["written"] == NEVER_MS for records, _ in portions])

    def are_swept(self, begin: int, stop: int, sweeps: Sweeps) -> npt.NDArray[np.bool_]:
        """Which of the rows begin..stop were closed by one of these sweeps."""
        portions = self.stored.portions(begin, stop)
        lives = (self.stored.layout.lives(records) for records, _ in portions)
        return np.concatenate([are_swept(sweeps, each) for each in lives])

    def closed_by(self, sweeps: Sweeps) -> Sweeps:
        """The sweeps of a table that may have closed rows of the run."""
        own = ending(self.policy)
        return tuple(
            sweep
            for sweep in since(sweeps, self.batch_id)
            if sweep.policy != own or sweep.to_ms >= self._first_end_ms
        )

    def due(self, policy: Policy, upto_ms: int, sweeps: Sweeps) -> Ints:
        """Rows whose lives end at or before `upto_ms` and were not closed by an earlier sweep.

        Args:
            policy: the policy in force.
            upto_ms: how far this sweep goes.
            sweeps: the sweeps that may have closed rows.
        """
        after_ms = self._indexed_after_ms(policy, sweeps)
        if after_ms is not None and upto_ms < self._first_end_ms:
            return np.zeros(0, dtype=np.int64)
        rows = self._real_rows() if after_ms is None else self._due.between(after_ms, upto_ms)
        if not len(rows):
            return rows
        lives = self.lives_at(rows)
        is_over = is_due(self._revised(lives, rows).due_ms(policy), upto_ms)
        is_over &= ~are_swept(sweeps, lives)
        return rows if is_over.all() else rows[is_over]

    def next_end_ms(self, policy: Policy, sweeps: Sweeps) -> int:
        """No open life of the run ends before this; `FOREVER_MS` if none ends. It may be too early,
        because it includes shadowed rows and the index is coarse.
        """
        after_ms = self._indexed_after_ms(policy, sweeps)
        if after_ms is None:
            lives = self.lives_at(self._real_rows())
            open_ms = lives.due_ms(policy)[~are_swept(sweeps, lives)]
            return int(open_ms.min(initial=FOREVER_MS))
        if after_ms < self._first_end_ms:
            return self._first_end_ms
        rows, next_ms = self._due.following(after_ms)
        if not len(rows):
            return next_ms
        deadlines_ms = self.lives_at(rows).due_ms(policy)
        return int(deadlines_ms[deadlines_ms > after_ms].min(initial=next_ms))

    def _indexed_after_ms(self, policy: Policy, sweeps: Sweeps) -> int | None:
        """The time from which to query the index; None: it cannot be used, because it is for other
        lives.
        """
        is_indexed = ending(policy) == ending(self.policy) and not policy.is_unbounded
        if not is_indexed or self.revision is not None:
            return None
        return reached_ms(sweeps, policy, NEVER_MS)

    @cached_property
    def _first_end_ms(self) -> int:
        """The first stored deadline under the index's policy; `FOREVER_MS` if there is none."""
        segments = self.stored.segments
        return min((each.base_ms for each in segments if each.due_rows), default=FOREVER_MS)

    def _real_rows(self) -> Ints:
        """All rows except tombstones."""
        return np.flatnonzero(~self.are_tombstones(0, len(self)))

    def lives(self, rows: Ints) -> Lives:
        """The times of the rows at these positions, at least one; they ascend."""
        begin, stop = int(rows[0]), int(rows[-1]) + 1
        portions = self.stored.portions(begin, stop)
        every = Lives.joined([self.stored.layout.lives(records) for records, _ in portions])
        return every if len(rows) == len(every) else every.take(rows - begin)

    def lives_at(self, rows: Ints) -> Lives:
        """The stored times of rows, which may be sparse."""
        if _are_adjacent(rows):
            return self.lives(rows)
        return self.stored.layout.lives(self.stored.at(rows)[0])

    def _revised(self, lives: Lives, rows: Ints) -> Lives:
        """The lives of these rows, in ascending order, after the revision."""
        if self.revision is None:
            return lives
        portions = self.stored.portions(0, len(self))
        return Lives.joined([self._read(*each, keys=False).lives for each in portions]).take(rows)

    def _read(self, records: Records, text: Text, *, keys: bool) -> Rows:
        """Records as rows in the current columns."""
        rows = self.stored.layout.unpack(records, self._keys if keys else [], self.columns, text)
        found = replace(rows, payload=self.reader.read(rows.payload, len(rows)))
        return found if self.revision is None else self.revision.revised(found)

    @cached_property
    def _keys(self) -> list[str]:
        return [f"k{at}" for at in range(len(self.reader.schema.keys))]

    @cached_property
    def _filters(self) -> Filters | None:
        segments = self.stored.segments
        if not segments[0].filter_blocks:
            return None
        return Filters(
            self.source,
            np.array([segment.filter // 8 for segment in segments]),
            np.array([segment.filter_blocks for segment in segments]),
            np.array([segment.fences[0] for segment in segments]),
            np.array([segment.last for segment in segments]),
        )

    @cached_property
    def _due(self) -> DueIndices:
        segments = self.stored.segments
        fences, places = [], []
        for number, segment in enumerate(segments):
            codes = segment.codes if len(segment.codes) else np.zeros(1, dtype=np.uint16)
            fences.append(fence_of(np.array(number), codes.astype(np.int64)))
            places.append(segment.code // 2 + np.arange(len(codes)) * STRIDE)
        return DueIndices(
            self.source,
            len(self),
            self.stored.starts[:-1],
            np.array([segment.due_rows for segment in segments]),
            np.array([segment.due // 4 for segment in segments]),
            np.array([segment.code // 2 for segment in segments]),
            np.array([segment.base_ms for segment in segments]),
            np.array([segment.shift for segment in segments]),
            np.concatenate(fences),
            np.concatenate(places),
        )


def _are_adjacent(rows: Ints) -> bool:
    """Whether these rows are consecutive."""
    if not len(rows) or rows[-1] - rows[0] != len(rows) - 1:
        return False
    return bool(np.all(np.diff(rows) == 1))

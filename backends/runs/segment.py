"""A segment: up to some 260,000 rows of a run with their filter and due index, as one Arrow batch.

Layout, run format version 4: a record batch of one row whose columns are lists, so that columns may
differ in length and each stays a slice of the mapped file. `hash` int64, ascending; the key columns
`k0` ...; `created`, `written`, `read`, `armed` int64 milliseconds (empty where they say nothing:
`created` equal to `written` throughout, never read, never armed); the payload columns under their
ids (`idlestate.backends.runs.table_schema`); `due` uint32 and `code` uint16, the due index;
`filter` uint64. The last three are empty where the segment has no index or no filter. What is
needed to find one's way in a segment without reading it stands apart, in the run's own index
(`SegmentIndex`).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.bloom_filter import Filter
from idlestate.backends.runs.due_index import DueIndex
from idlestate.backends.runs.fields import to_arrow
from idlestate.backends.runs.keys import Keys, look_up, take_keys
from idlestate.backends.runs.reading import Reading, Touch
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.sorted_search import fences_of, first_at_least
from idlestate.backends.runs.sweeps import Sweeps, are_swept
from idlestate.backends.runs.table_schema import Reader, TableSchema
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS, is_due

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SegmentIndex:
    """A few numbers about a segment, kept in memory."""

    fences: Ints
    """Of its hashes (`idlestate.backends.runs.sorted_search`), at least one."""
    last: int
    """The highest hash."""
    codes: npt.NDArray[np.uint16]
    """Fences of the due index."""
    base_ms: int | None
    """Base and shift of the due index; None where there is none."""
    shift: int | None


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows in order of hash, at least one; equal hashes never lie in two segments of a run.

    The rows of a run's segment may be read as `idlestate.backends.runs.reading` says.
    """

    stored: Rows
    """Their payload has the columns of the file: of them may be read what `read` brings."""
    reader: Reader
    """Brings the payload into the columns of today."""
    due: DueIndex | None
    """None where the policy ends nothing."""
    filter: Filter | None
    """None in the oldest run: nearly every key that is looked for there is there."""
    fences: Ints
    last: int
    """Of its hashes, as in `SegmentIndex`."""

    @classmethod
    def of(cls, rows: Rows, schema: TableSchema, policy: Policy, *, with_filter: bool) -> "Segment":
        """The segment of these rows of a schema, indexed by their deadlines under a policy."""
        due = None
        if not policy.is_unbounded:
            gone = rows.are_tombstones
            if gone.any():
                real = np.flatnonzero(~gone)
                due = DueIndex.of(rows.lives.take(real).ends(policy).deadline_ms, real)
            else:
                due = DueIndex.of(rows.lives.ends(policy).deadline_ms)
        held = Filter.of(rows.hashes) if with_filter else None
        reader = Reader.of(schema, [column.id for column in schema.columns])
        return cls(rows, reader, due, held, fences_of(rows.hashes), int(rows.hashes[-1]))

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def first(self) -> int:
        """The lowest hash."""
        return int(self.fences[0])

    @property
    def index(self) -> SegmentIndex:
        """The numbers about it."""
        due = self.due
        if due is None:
            none = np.zeros(0, dtype=np.uint16)
            return SegmentIndex(self.fences, self.last, none, None, None)
        return SegmentIndex(self.fences, self.last, due.fences, due.base_ms, due.shift)

    def look_up(self, hashes: Ints, keys: Keys) -> Reading[Ints]:
        """The row of each key, -1 where there is none; hashes within the segment's."""
        stored, stored_keys = self.stored.hashes, self.stored.keys
        found = np.full(len(hashes), -1)
        wanted = np.arange(len(hashes))
        if self.filter is not None:
            wanted = np.flatnonzero((yield from self.filter.may_hold(hashes)))
            hashes, keys = hashes[wanted], take_keys(keys, wanted)
        if len(wanted):
            at = yield from first_at_least(stored, self.fences, hashes)
            found[wanted] = yield from look_up(hashes, keys, stored, stored_keys, at)
        return found

    def take(self, rows: Ints, *, keys: bool) -> Reading[Rows]:
        """The rows at these positions, with or without keys."""
        held = self.stored if keys else self.stored.without_keys
        yield Touch.rows(held.columns, rows)
        return self.read(held.take(rows))

    def slice(self, begin: int, stop: int) -> Rows:
        """The rows begin..stop, without a copy where the file has the columns of today."""
        return self.read(self.stored.slice(begin, stop))

    def between(self, since: int, upto: int) -> "Segment | None":
        """Its rows with hashes from `since` to `upto`, both included, without an index; None for
        none.
        """
        begin = int(np.searchsorted(self.stored.hashes, since, side="left"))
        stop = int(np.searchsorted(self.stored.hashes, upto, side="right"))
        if begin == stop:
            return None
        rows = self.stored.slice(begin, stop)
        fences, last = fences_of(rows.hashes), int(rows.hashes[-1])
        return replace(self, stored=rows, due=None, fences=fences, last=last)

    def read(self, stored: Rows) -> Rows:
        """Some of the stored rows, in the columns of today."""
        return replace(stored, payload=self.reader.read(stored.payload, len(stored)))

    def due_rows(
        self, policy: Policy, after_ms: int | None, upto_ms: int, sweeps: Sweeps
    ) -> Reading[Ints]:
        """Rows whose lives end at or before `upto_ms` and that no earlier sweep closed.

        Args:
            policy: the policy in force.
            after_ms: nothing ends up to then; None: the index is of another policy.
            upto_ms: how far this sweep goes.
            sweeps: the sweeps since the run was written.
        """
        if self.due is None or after_ms is None:
            rows = yield from self._real_rows()
        else:
            rows = np.sort((yield from self.due.between(after_ms, upto_ms)))
        yield Touch.rows(self.stored.lives.columns, rows)
        lives = self.stored.lives.take(rows)
        is_over = is_due(lives.ends(policy).deadline_ms, upto_ms)
        rows, lives = rows[is_over], lives.take(is_over)
        found: Ints = rows[~are_swept(sweeps, lives)]
        return found

    def next_end_ms(self, policy: Policy, after_ms: int | None, sweeps: Sweeps) -> Reading[int]:
        """The first deadline after `after_ms`, found by index; None: by looking at all rows."""
        if self.due is None or after_ms is None:
            rows = yield from self._real_rows()
            yield Touch.rows(self.stored.lives.columns, rows)
            lives = self.stored.lives.take(rows)
            open_ms = lives.ends(policy).deadline_ms[~are_swept(sweeps, lives)]
            return int(open_ms.min(initial=FOREVER_MS))
        rows, next_ms = yield from self.due.following(after_ms)
        if len(rows):
            yield Touch.rows(self.stored.lives.columns, rows)
            deadlines_ms = self.stored.lives.take(rows).ends(policy).deadline_ms
            next_ms = int(deadlines_ms[deadlines_ms > after_ms].min(initial=next_ms))
        return next_ms

    def _real_rows(self) -> Reading[Ints]:
        """The rows that are no tombstones."""
        yield [Touch.span(self.stored.lives.written_at_ms, 0, len(self))]
        return np.flatnonzero(~self.stored.are_tombstones)

    def encode(self) -> pa.RecordBatch:
        """The segment, which is new, as its record batch."""
        rows, lives, due = self.stored, self.stored.lives, self.due
        none = np.zeros(0, dtype=np.int64)
        columns: dict[str, Any] = {"hash": rows.hashes}
        columns |= {f"k{at}": column for at, column in enumerate(rows.keys)}
        is_plain = np.array_equal(lives.created_at_ms, lives.written_at_ms)
        columns["created"] = none if is_plain else lives.created_at_ms
        columns["written"] = lives.written_at_ms
        for name, times in (("read", lives.read_at_ms), ("armed", lives.armed_at_ms)):
            columns[name] = times if (times != NEVER_MS).any() else none
        for column, field in zip(self.reader.schema.columns, rows.payload, strict=True):
            columns[column.id] = field
        columns["due"] = due.rows if due else none.astype(np.uint32)
        columns["code"] = due.codes if due else none.astype(np.uint16)
        columns["filter"] = self.filter.blocks if self.filter else none.astype(np.uint64)
        return pa.RecordBatch.from_pydict(
            {name: _listed(to_arrow(column)) for name, column in columns.items()}
        )

    @classmethod
    def decode(cls, batch: pa.RecordBatch, schema: TableSchema, index: SegmentIndex) -> "Segment":
        """Read it back; columns stay mapped, and nothing of them is read."""
        stored = [column for column in schema.columns if column.id in batch.schema.names]

        def column(name: str) -> pa.Array:
            # Of the list's offsets nothing is asked: its one row is all of its values.
            return batch.column(name).values

        def numbers(name: str) -> Any:
            return column(name).to_numpy()

        hashes, written = numbers("hash"), numbers("written")

        def times(name: str, otherwise: Ints) -> Ints:
            found: Ints = numbers(name)
            return found if len(found) else otherwise

        never = np.broadcast_to(np.int64(NEVER_MS), len(hashes))
        lives = Lives(
            times("created", written), written, times("read", never), times("armed", never)
        )
        payload = [numbers(each.id) if each.is_numpy else column(each.id) for each in stored]
        rows = Rows(hashes, [column(f"k{at}") for at in range(len(schema.keys))], lives, payload)
        reader = Reader.of(schema, [each.id for each in stored])
        due = None
        if index.base_ms is not None and index.shift is not None:
            due = DueIndex(numbers("due"), numbers("code"), index.codes, index.base_ms, index.shift)
        blocks = numbers("filter")
        held = Filter(blocks, int(index.fences[0]), index.last) if len(blocks) else None
        return cls(rows, reader, due, held, index.fences, index.last)


def _listed(values: pa.Array) -> pa.Array:
    """The array as the one row of a list column."""
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)

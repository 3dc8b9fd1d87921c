"""Merging of runs: which runs, and how.

**Which** runs are merged is decided before a batch writes anything, only from sizes, so that the
batch's rows and the chosen runs are written once, together. Runs are taken from newest to oldest,
as long as the next one is at most `ratio` times the size taken so far. Sizes then grow
geometrically, so there are few runs, and a row is rewritten a logarithmic number of times. If the
number of rows exceeds `space` times the open lives, everything is merged, which releases memory and
disk space. Merging a large table takes as long as many small batches, so no two such merges should
fall into one batch: every table has its own turn, one batch in `turns`, in which it merges what
would become too large before its next turn.

**How**: one range of hashes at a time, so memory does not grow with the table. Shadowed rows (a
newer run has the key) and closed rows are dropped; tombstones are dropped if the oldest run takes
part. Dropping a closed row cannot bring back an older row of its key: every time of the older row
is at or before that of the newer one, so under any policy it ended no later, and the sweep that
closed the newer row also closed the older one. Where this does not hold
(`TableSchema.ends_run_back`), a tombstone replaces the row (`idlestate.backends.runs.table_runs`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.packed_rows import PackedRows
from idlestate.backends.runs.row_layout import RowLayout
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.run import Run
from idlestate.backends.runs.sweeps import Sweeps
from idlestate.backends.runs.table_schema import TableSchema

SEGMENT_BYTES = 1 << 28
"""Bytes of rows that are gathered at once, because an Arrow string array is limited to 2 GB."""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """When runs are merged, and how large the segments of the result are. It affects no results.

    Attributes:
        ratio: a run is merged if its size is at most this many times that of all newer runs. Near
            1, runs of equal size are merged, so few rows are rewritten repeatedly.
        dense: a batch with at least this share of the open lives merges everything, because
            rewriting costs less than looking up most keys in two places.
        space: at most this many rows per open life are kept.
        floor_rows: below this many rows, space does not matter.
        most_runs: the maximum number of runs of a table.
        segment_rows: the approximate number of rows in a segment.
        segment_bytes: the approximate bytes of a segment, if that means fewer rows; also the bytes
            of rows leaving the table that are gathered at once.
        turns: one batch in this many is a table's turn. In it, the table is also rewritten if its
            due index was built under an older policy.
        stagger: 0 to 1, different per shard: determines which batches are its turn, and raises
            `ratio` by up to 1.
    """

    ratio: float = 1.1
    dense: float = 0.25
    space: float = 1.4
    floor_rows: int = 1024
    most_runs: int = 6
    segment_rows: int = 262_144
    segment_bytes: int = SEGMENT_BYTES
    turns: int = 16
    stagger: float = 0.0

    def is_turn(self, batch_id: int) -> bool:
        """Whether a batch is the table's turn."""
        return batch_id % self.turns == int(self.stagger * self.turns)

    def is_sparse(self, rows: int, live: int) -> bool:
        """Whether there are more rows than allowed for this many open lives."""
        return rows > max(self.space * live, self.floor_rows)

    def runs_taken(
        self, fresh: int, runs: Sequence[int], live: int, *, is_turn: bool = False
    ) -> int:
        """The number of newest runs to rewrite together with a batch's rows.

        Args:
            fresh: rows of the batch.
            runs: rows per run, oldest first.
            live: open lives after the batch.
            is_turn: whether the batch is the table's turn.
        """
        ratio, rows = self.ratio + self.stagger, fresh + sum(runs)
        spare = (self.space - 1) * live
        if is_turn and rows > live + spare / 2:
            rows += fresh * self.turns  # the estimate for the next turn
        if self.is_sparse(rows, live) or fresh >= self.dense * live:
            return len(runs)
        if not fresh:
            return 0
        taken, rows = 0, fresh
        while taken < len(runs) and (
            runs[-1 - taken] <= ratio * rows or len(runs) - taken >= self.most_runs
        ):
            rows += runs[-1 - taken]
            taken += 1
        return taken


def stagger(shard: int) -> float:
    """A number from 0 to 1 for each shard, evenly spread: multiples of the golden ratio."""
    return shard * 0.6180339887498949 % 1


@dataclass(frozen=True, slots=True)
class _Kept:
    """The rows of a run to keep, in order of hash."""

    run: Run
    rows: Ints

    @property
    def nbytes(self) -> int:
        """The bytes of the rows, including rows between them."""
        return self.run.stored.nbytes(int(self.rows[0]), int(self.rows[-1]) + 1)

    @property
    def edges(self) -> Ints:
        """The lowest and the highest hash."""
        return self.run.stored.hashes_at(self.rows[[0, -1]])

    def first_at_least(self, hashes: Ints) -> Ints:
        """For each hash, ascending, the first row with it or a higher one."""
        return np.searchsorted(self.rows, self.run.stored.first_at_least(hashes))

    def slice(self, begin: int, stop: int | None) -> "_Kept":
        """The rows begin..stop (None: to the end)."""
        return _Kept(self.run, self.rows[begin:stop])


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """Rows of several runs and of a batch, gathered on demand."""

    kept: Sequence[_Kept]
    fresh: Rows

    @property
    def nbytes(self) -> int:
        """The bytes of the rows, including rows between them."""
        return self.fresh.nbytes + sum(each.nbytes for each in self.kept)

    @property
    def edges(self) -> tuple[int, int]:
        """The lowest and the highest hash."""
        hashes = np.concatenate([self.fresh.hashes, *(each.edges for each in self.kept)])
        return int(hashes.min()), int(hashes.max())

    def packed(self, schema: TableSchema, layout: RowLayout) -> PackedRows:
        """The rows in order of hash, in a layout of the schema's columns."""
        if not self.kept:
            return PackedRows.of(self.fresh, schema, layout)
        parts, places = list[PackedRows](), list[Ints]()
        for each in self.kept:
            found, at = each.run.packed(each.rows, schema, layout)
            places.append(at + sum(map(len, parts)))
            parts += found
        if len(self.fresh):
            places.append(np.arange(len(self.fresh)) + sum(map(len, parts)))
            parts.append(PackedRows.of(self.fresh, schema, layout))
        rows = np.concatenate(places)
        hashes = np.concatenate([part.records["hash"] for part in parts])[rows]
        # The stable sort merges adjacent sorted sequences.
        return PackedRows.gathered(parts, rows[np.argsort(hashes, kind="stable")])

    def rows(self) -> Rows:
        """The rows in order of hash."""
        pieces = [each.run.take(each.rows, keys=True) for each in self.kept]
        if len(self.fresh):
            pieces.append(self.fresh)
        if len(pieces) == 1:
            return pieces[0]
        hashes = np.concatenate([piece.hashes for piece in pieces])
        return Rows.gathered(pieces, np.argsort(hashes, kind="stable"))


def merged(
    runs: Sequence[Run],
    sweeps: Sweeps,
    closed: Sequence[Ints],
    fresh: Rows,
    segment_rows: int,
    segment_bytes: int,
    *,
    keep_tombstones: bool,
    since: int | None = None,
    upto: int | None = None,
) -> Iterator[SegmentPart]:
    """The rows to keep, in order of hash, about `segment_rows` at a time.

    Args:
        runs: the runs, oldest first.
        sweeps: the history before this batch.
        closed: the rows that this batch replaced or closed, per run.
        fresh: the batch's rows, in order of hash.
        segment_rows, segment_bytes: as in `MergePolicy`; any number of equal hashes stays together.
        keep_tombstones: False if no older run remains.
        since, upto: only rows of runs with hashes in this range are included; None: all rows.
    """
    for run in runs:
        run.need_all()
    spans = [_span(run, since, upto) for run in runs]
    kept = _kept(runs, spans, sweeps, closed, fresh, keep_tombstones=keep_tombstones)
    is_fresh = np.ones(len(fresh), dtype=bool) if keep_tombstones else ~fresh.are_tombstones
    fresh = fresh.take(is_fresh)
    cuts = _cuts(runs, kept, fresh, segment_rows)
    parts = [_Kept(run, rows) for run, rows in zip(runs, kept, strict=True)]
    places = [[0, *part.first_at_least(cuts).tolist(), None] for part in parts]
    of_fresh = [0, *np.searchsorted(fresh.hashes, cuts).tolist(), len(fresh)]
    for at in range(len(cuts) + 1):
        some = [
            part.slice(place[at], place[at + 1]) for part, place in zip(parts, places, strict=True)
        ]
        yield from _segments(some, fresh.slice(of_fresh[at], of_fresh[at + 1]), segment_bytes)


def open_positions(
    runs: Sequence[Run], sweeps: Sweeps, nothing: Rows, upto: int | None
) -> list[Ints]:
    """The rows of open lives with hashes up to `upto` (None: all), per run.

    Args:
        runs: the runs, oldest first.
        sweeps: the history.
        nothing: no rows.
        upto: the highest hash.
    """
    spans = [_span(run, None, upto) for run in runs]
    none = [np.zeros(0, dtype=np.int64)] * len(runs)
    return _kept(runs, spans, sweeps, none, nothing, keep_tombstones=False)


def _segments(kept: Sequence[_Kept], fresh: Rows, segment_bytes: int) -> Iterator[SegmentPart]:
    """All of these rows, halved by hash until each part is small enough."""
    kept = [part for part in kept if len(part.rows)]
    whole = SegmentPart(kept, fresh)
    if whole.nbytes > segment_bytes:
        low, high = whole.edges
        if low < high:
            middle = np.array([(low + high + 1) // 2])
            place = int(np.searchsorted(fresh.hashes, middle)[0])
            places = [int(part.first_at_least(middle)[0]) for part in kept]
            parts = list(zip(kept, places, strict=True))
            below, above = fresh.slice(0, place), fresh.slice(place, len(fresh))
            yield from _segments([part.slice(0, at) for part, at in parts], below, segment_bytes)
            yield from _segments([part.slice(at, None) for part, at in parts], above, segment_bytes)
            return
    if kept or len(fresh):
        yield whole


def _span(run: Run, since: int | None, upto: int | None) -> tuple[int, int]:
    """Where the rows with hashes from `since` to `upto`, both inclusive, begin and end."""
    begin = 0 if since is None else run.stored.first_at(since)
    if upto is None or run.last <= upto:
        return begin, len(run)
    return begin, run.stored.first_at(upto + 1)


def _kept(
    runs: Sequence[Run],
    spans: Sequence[tuple[int, int]],
    sweeps: Sweeps,
    closed: Sequence[Ints],
    fresh: Rows,
    *,
    keep_tombstones: bool,
) -> list[Ints]:
    """The rows that are neither closed nor shadowed by a newer run among these, per run."""
    found = []
    for at, (run, (begin, stop)) in enumerate(zip(runs, spans, strict=True)):
        if len(closed[at]) == len(run):
            found.append(np.zeros(0, dtype=np.int64))
            continue
        keep = np.zeros(len(run), dtype=bool)
        keep[begin:stop] = True
        passed = run.closed_by(sweeps)
        if begin < stop:
            gone = run.are_tombstones(begin, stop)
            if passed:
                keep[begin:stop] = gone | ~run.are_swept(begin, stop, passed)
            if not keep_tombstones:
                keep[begin:stop] &= ~gone
        keep[closed[at]] = False
        later = len(runs) if run.reader.schema.is_log else at + 1
        newer = chain.from_iterable(
            other.keys_in_portions(*span)
            for other, span in zip(runs[later:], spans[later:], strict=True)
        )
        if run.has_tombstones:
            # The batch closed only open rows, which excludes tombstones.
            newer = chain(newer, [(fresh.hashes, fresh.keys)])
        for hashes, keys in newer:
            shadowed = run.look_up(hashes, keys)
            keep[shadowed[shadowed >= 0]] = False
        found.append(np.flatnonzero(keep))
    return found


def _cuts(runs: Sequence[Run], kept: Sequence[Ints], fresh: Rows, segment_rows: int) -> Ints:
    """Hashes that cut the kept rows into ranges of about `segment_rows`, found from a sample."""
    if sum(map(len, kept)) + len(fresh) <= segment_rows:
        return np.zeros(0, dtype=np.int64)
    stride = max(1, segment_rows // 64)
    sample = [run.stored.hashes_at(rows[::stride]) for run, rows in zip(runs, kept, strict=True)]
    every = segment_rows // stride
    sample.append(fresh.hashes[::stride])
    return np.unique(np.sort(np.concatenate(sample))[every::every])

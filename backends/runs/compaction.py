"""Merging runs: which, and how.

**Which** is decided before a batch writes anything, from sizes alone, so that the batch's rows and
the chosen runs are written once, together. Runs are taken from the newest on while the next is at
most `ratio` times what is taken already: sizes then grow geometrically from run to run, so runs
are few and a row is rewritten a logarithm of times. When rows named outgrow open lives by `space`
everything is merged, which is what gives memory and disk back. The merge of a large table takes as
long as many batches that touch little, so no two should fall into one batch: every table has a turn
of its own, one batch in `turns`, and merges in it what would be too large before the next.

**How**: range of hashes by range of hashes, so that memory does not grow with the table. Shadowed
rows (a newer run has the key) and closed ones are left out; tombstones go when the oldest run takes
part. A closed row that is left out cannot bring back an older row of its key: every time of the
older row is at or before the newer one's, so under any policy it ended no later, and the sweep that
closed the newer row closed it too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.run import Run
from idlestate.backends.runs.sweeps import Sweeps, are_swept

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """When runs are merged, and how large the segments of the result are. No result depends on it.

    Attributes:
        ratio: a run is merged when it is at most this many times what is newer. Near one, runs of
            equal size meet: few rows are moved again and again.
        dense: a batch with at least this share of the open lives merges everything: to write it all
            costs less than to look for most keys in two places.
        space: at most this many rows per open life are kept.
        floor_rows: below so many rows space is of no concern.
        most_runs: no table has more runs.
        segment_rows: rows of a segment, about.
        turns: one batch in so many is a table's turn. In it the table is also written anew when
            its due index goes by an older policy.
        stagger: 0 to 1, another one per shard: decides which batches are its turn, and raises
            `ratio` by up to one.
    """

    ratio: float = 1.1
    dense: float = 0.25
    space: float = 1.4
    floor_rows: int = 1024
    most_runs: int = 6
    segment_rows: int = 262_144
    turns: int = 16
    stagger: float = 0.0

    def is_turn(self, batch_id: int) -> bool:
        """Whether a batch is the table's turn."""
        return batch_id % self.turns == int(self.stagger * self.turns)

    def is_sparse(self, rows: int, live: int) -> bool:
        """Whether so many rows are more than is kept for so many open lives."""
        return rows > max(self.space * live, self.floor_rows)

    def runs_taken(
        self, fresh: int, runs: Sequence[int], live: int, *, is_turn: bool = False
    ) -> int:
        """How many of the newest runs are written anew together with a batch's rows.

        Args:
            fresh: rows of the batch.
            runs: rows per run, oldest first.
            live: open lives after the batch.
            is_turn: whether the batch is the table's turn.
        """
        ratio, rows = self.ratio + self.stagger, fresh + sum(runs)
        spare = (self.space - 1) * live
        if is_turn and rows > live + spare / 2:
            rows += fresh * self.turns  # as it would be at the next turn
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


def merged(
    runs: Sequence[Run],
    sweeps: Sweeps,
    closed: Sequence[Ints],
    fresh: Rows,
    segment_rows: int,
    *,
    keep_tombstones: bool,
) -> Iterator[Rows]:
    """The rows that count, in order of hash, about `segment_rows` at a time.

    Args:
        runs: the runs, oldest first.
        sweeps: the history before this batch.
        closed: per run the rows that this batch replaced or closed.
        fresh: the batch's rows, in order of hash.
        segment_rows: equal hashes stay together, however many there are.
        keep_tombstones: False when nothing older remains.
    """
    for run in runs:
        run.need_all()
    parts: list[Rows] = []
    reads: list[Callable[[Rows], Rows]] = []
    keeps: list[Flags] = []
    for run, keep in zip(runs, _kept(runs, sweeps, closed, fresh), strict=True):
        for segment, start in zip(run.segments, run.starts.tolist(), strict=False):
            parts.append(segment.stored)
            reads.append(segment.read)
            keeps.append(keep[start : start + len(segment)])
    parts.append(fresh)
    reads.append(lambda rows: rows)
    keeps.append(np.ones(len(fresh), dtype=bool))
    if not keep_tombstones:
        keeps = [keep & ~part.are_tombstones for part, keep in zip(parts, keeps, strict=True)]
    cuts = _cuts([part.hashes for part in parts], keeps, segment_rows)
    places = [[0, *np.searchsorted(p.hashes, cuts).tolist(), len(p)] for p in parts]
    for at in range(len(cuts) + 1):
        pieces, kept, first = [], [], 0
        for part, read, keep, place in zip(parts, reads, keeps, places, strict=True):
            begin, stop = place[at], place[at + 1]
            if begin < stop:
                pieces.append(read(part.slice(begin, stop)))
                kept.append(np.flatnonzero(keep[begin:stop]) + first)
                first += stop - begin
        if first and len(rows := np.concatenate(kept)):
            yield _in_order(pieces, rows, first)


def _in_order(pieces: Sequence[Rows], rows: Ints, total: int) -> Rows:
    if len(pieces) == 1:
        return pieces[0] if len(rows) == total else pieces[0].take(rows)
    hashes = np.concatenate([piece.hashes for piece in pieces])[rows]
    # Runs of sorted numbers one after the other: the stable sort merges them.
    return Rows.gathered(pieces, rows[np.argsort(hashes, kind="stable")])


def _kept(runs: Sequence[Run], sweeps: Sweeps, closed: Sequence[Ints], fresh: Rows) -> list[Flags]:
    """Per run which rows are neither closed nor shadowed by something newer among these."""
    keeps = []
    for at, run in enumerate(runs):
        keep = np.ones(len(run), dtype=bool)
        passed = tuple(sweep for sweep in sweeps if sweep.batch_id > run.batch_id)
        if passed:
            stored = [segment.stored for segment in run.segments]
            gone = [are_swept(passed, rows.lives) & ~rows.are_tombstones for rows in stored]
            keep = ~np.concatenate(gone)
        keep[closed[at]] = False
        newer = [segment.stored for other in runs[at + 1 :] for segment in other.segments]
        if any(segment.stored.are_tombstones.any() for segment in run.segments):
            newer.append(fresh)  # the batch closed open rows; it knew of no tombstones
        for rows in newer:
            found = run.look_up(rows.hashes, rows.keys)
            keep[found[found >= 0]] = False
        keeps.append(keep)
    return keeps


def _cuts(hashes: Sequence[Ints], keeps: Sequence[Flags], segment_rows: int) -> Ints:
    """Hashes that cut the kept rows into ranges of about `segment_rows`, found from a sample."""
    if sum(int(keep.sum()) for keep in keeps) <= segment_rows:
        return np.zeros(0, dtype=np.int64)
    stride = max(1, segment_rows // 64)
    sample = [h[np.flatnonzero(keep)[::stride]] for h, keep in zip(hashes, keeps, strict=True)]
    every = segment_rows // stride
    return np.unique(np.sort(np.concatenate(sample))[every::every])

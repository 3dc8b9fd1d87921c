"""The rows of a shard as runs, oldest to newest: a log-structured table.

A batch writes one run with the rows that it touched, possibly merged with older runs
(`compaction`); existing runs never change. A key is looked up from the newest run to the oldest,
and the first row found counts. Ended rows are not written, but follow from the history of sweeps
(`sweeps`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.byte_arrays import spread
from idlestate.backends.runs.compaction import SEGMENT_BYTES, MergePolicy, merged, open_positions
from idlestate.backends.runs.keys import Keys, take_keys
from idlestate.backends.runs.row_layout import RowLayout, extras_of
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.run import Revision, Run
from idlestate.backends.runs.run_codec import run_in_memory
from idlestate.backends.runs.segment import Segment
from idlestate.backends.runs.sweeps import Sweeps, are_swept, ending, since, with_sweep
from idlestate.backends.runs.table_schema import TableSchema
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS

LOWEST_HASH = -(1 << 63)
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs, the sweeps that apply to them, and the number of open lives."""

    schema: TableSchema
    runs: tuple[Run, ...] = ()
    sweeps: Sweeps = ()
    live: int = 0

    def with_schema(self, schema: TableSchema) -> "Runs":
        """The same rows with other payload columns; new columns are blank."""
        runs = tuple(run.with_schema(schema) for run in self.runs)
        return replace(self, schema=schema, runs=runs)

    def with_revision(self, revision: Revision) -> "Runs":
        """The same rows, revised; the next batch rewrites all of them."""
        return replace(self, runs=tuple(run.with_revision(revision) for run in self.runs))

    def look_up(self, hashes: Ints, keys: Keys) -> tuple[Ints, Rows]:
        """The positions of open lives of these keys (-1: none), and their rows without keys.

        Args:
            hashes, keys: the keys to look up, in order of hash.
        """
        at = np.full(len(hashes), -1)
        pending = np.arange(len(hashes))
        for run, start in zip(reversed(self.runs), reversed(self._starts()), strict=True):
            at_keys = pending if len(pending) < len(hashes) else None
            found = run.look_up(hashes[pending], keys, at_keys)
            at[pending] = np.where(found < 0, -1, found + start)
            pending = pending[found < 0]
        rows = self.take(at[at >= 0], keys=False)
        is_gone = rows.are_tombstones | self.are_swept(at[at >= 0], rows)
        if is_gone.any():
            at[np.flatnonzero(at >= 0)[is_gone]] = -1
            rows = rows.take(~is_gone)
        return at, rows

    def between(self, firsts: Ints, lasts: Ints) -> tuple[Ints, Rows]:
        """The rows of open lives with hashes in some ranges, and their positions.

        Sweeps are not considered; if a policy ends lives, use `are_swept`.

        Args:
            firsts: the lowest hash of each range, ascending.
            lasts: the highest one; no two ranges overlap.
        """
        found, parts = [np.zeros(0, dtype=np.int64)], [Rows.empty(self.schema)]
        for at, (run, start) in enumerate(zip(self.runs, self._starts(), strict=True)):
            first = run.stored.first_at_least(firsts)
            places = spread(first, run.stored.first_after(lasts) - first)
            if not len(places):
                continue
            rows = run.take(places, keys=True)
            newer = () if self.schema.is_log else self.runs[at + 1 :]
            counts = ~rows.are_tombstones & ~_shadowed([(rows.hashes, rows.keys)], newer)
            found.append(places[counts] + start)
            parts.append(rows.take(counts))
        return np.concatenate(found), Rows.gathered(parts)

    def take(self, positions: Ints, *, keys: bool = True) -> Rows:
        """The rows at positions, with or without keys; in each run they ascend."""
        parts, order = [], []
        for run, at in zip(self.runs, self.by_run(positions), strict=True):
            chosen, rows = at
            if len(rows):
                parts.append(run.take(rows, keys=keys))
                order.append(chosen)
        if not parts:
            return Rows.empty(self.schema)
        if len(parts) == 1:
            return parts[0]
        return Rows.gathered(parts, np.argsort(np.concatenate(order)))

    def due(self, policy: Policy, upto_ms: int | None, besides: Ints) -> Ints:
        """Positions of the open lives that end at or before `upto_ms` (None: no lives).

        Args:
            policy: the policy in force.
            upto_ms: how far a sweep goes.
            besides: positions to leave out.
        """
        found = [np.zeros(0, dtype=np.int64)]
        if upto_ms is None or policy.is_unbounded:
            return found[0]
        for at, (run, start) in enumerate(zip(self.runs, self._starts(), strict=True)):
            rows = run.due(policy, upto_ms, run.closed_by(self.sweeps))
            if len(rows) and len(besides):
                rows = rows[~np.isin(rows + start, besides)]
            if len(rows) and at + 1 < len(self.runs) and not self.schema.is_log:
                rows = rows[~_shadowed(run.keys_at(rows), self.runs[at + 1 :])]
            found.append(rows + start)
        return np.concatenate(found)

    def next_end_ms(self, policy: Policy) -> int:
        """No open life ends before this; `FOREVER_MS` if none ends."""
        if policy.is_unbounded or not self.live:
            return FOREVER_MS
        return min(run.next_end_ms(policy, run.closed_by(self.sweeps)) for run in self.runs)

    def open_rows(
        self, since: int, most_rows: int, most_bytes: int = SEGMENT_BYTES
    ) -> tuple[Rows, int | None]:
        """Some open lives in order of hash, and the hash to continue from; None: there are no more.

        Args:
            since: the lowest hash; `LOWEST_HASH` at first.
            most_rows: the rows to read, including closed ones; equal hashes stay together.
            most_bytes: fewer rows are returned if they are larger.
        """
        nothing = Rows.empty(self.schema)
        for run in self.runs:
            run.need_all()
        hashes = [run.hashes_from(since, most_rows) for run in self.runs]
        ahead = np.sort(np.concatenate([nothing.hashes, *hashes]))[:most_rows]
        if not len(ahead):
            return nothing, None
        upto = int(ahead[-1])
        none = [np.zeros(0, dtype=np.int64)] * len(self.runs)
        size = sum(map(len, self.runs))
        parts = merged(
            self.runs,
            self.sweeps,
            none,
            nothing,
            size,
            most_bytes,
            keep_tombstones=False,
            since=since,
            upto=upto,
        )
        first, further = next(parts, None), next(parts, None)
        rows = nothing if first is None else first.rows()
        if further is not None:
            return rows, further.edges[0]
        is_last = all(run.last <= upto for run in self.runs)
        return rows, None if is_last else upto + 1

    def open_lives(self, share: float | None = None) -> Lives:
        """The times of open lives.

        Args:
            share: the share of the rows to read, those with the lowest hashes; None: all rows.
        """
        upto = None
        if share is not None and self.runs:
            largest = max(self.runs, key=len)
            upto = int(largest.stored.hashes_at(np.array([int(len(largest) * share)]))[0])
        nothing = Rows.empty(self.schema)
        places = open_positions(self.runs, self.sweeps, nothing, upto)
        found = [run.lives(at) for run, at in zip(self.runs, places, strict=True) if len(at)]
        return Lives.joined([nothing.lives, *found])

    def after(
        self,
        fresh: Rows,
        closed: Ints,
        live: int,
        policy: Policy,
        sweep_at_ms: int | None,
        batch_id: int,
        merge: MergePolicy,
    ) -> "Next":
        """The runs after a batch.

        Args:
            fresh: rows of the batch, including tombstones, in order of hash.
            closed: positions of the rows that it replaced or closed.
            live: the number of open lives after the batch.
            policy, sweep_at_ms: the policy of its sweep, and how far it swept (None: not at all).
            batch_id: its number, higher than that of any run.
            merge: when runs are merged.
        """
        is_turn = merge.is_turn(batch_id)
        rows = [len(run) for run in self.runs]
        taken = merge.runs_taken(len(fresh), rows, live, is_turn=is_turn)
        if any(run.revision for run in self.runs) or (is_turn and self._is_stale(policy)):
            taken = len(self.runs)
        return Next(self, fresh, closed, live, policy, sweep_at_ms, batch_id, merge, taken)

    def _is_stale(self, policy: Policy) -> bool:
        """Whether a run is indexed under another policy, so that sweeps scan all its rows."""
        return not policy.is_unbounded and any(
            ending(run.policy) != ending(policy) for run in self.runs
        )

    def _starts(self) -> list[int]:
        return [0, *accumulate(len(run) for run in self.runs)][:-1]

    def by_run(self, positions: Ints) -> list[tuple[Ints, Ints]]:
        """For each run, which of the positions belong to it, and their rows in it."""
        bounds = [*self._starts(), sum(len(run) for run in self.runs)]
        if len(self.runs) == 1:
            return [(np.arange(len(positions)), positions)]
        run_of = np.searchsorted(bounds, positions, side="right") - 1
        found = []
        for at, start in enumerate(bounds[:-1]):
            chosen = np.flatnonzero(run_of == at)
            found.append((chosen, positions[chosen] - start))
        return found

    def are_swept(self, positions: Ints, rows: Rows) -> npt.NDArray[np.bool_]:
        """Which of the rows at these positions were closed by a sweep."""
        gone = np.zeros(len(positions), dtype=bool)
        closed_by = [run.closed_by(self.sweeps) for run in self.runs]
        if not any(closed_by):
            return gone
        for run, passed, (chosen, at) in zip(
            self.runs, closed_by, self.by_run(positions), strict=True
        ):
            if passed and len(chosen):
                lives = rows.lives.take(chosen) if run.revision is None else run.lives_at(at)
                gone[chosen] = are_swept(passed, lives)
        return gone


@dataclass(frozen=True, slots=True)
class Next:
    """The runs after a batch: those that remain, and the content of the new one."""

    before: Runs
    fresh: Rows
    closed: Ints
    live: int
    policy: Policy
    sweep_at_ms: int | None
    batch_id: int
    merge: MergePolicy
    taken: int
    """The number of newest runs that the new run replaces."""

    @property
    def writes(self) -> bool:
        """Whether there is a run to write, or runs to drop."""
        return bool(self.taken or len(self.fresh))

    def segments(self) -> Iterator[Segment]:
        """The segments of the run to write; none if nothing remains of the runs that it
        replaces.
        """
        stay = len(self.before.runs) - self.taken
        with_filter = stay > 0 and not self.before.schema.is_log
        closed = [rows for _, rows in self.before.by_run(self.closed)]
        fresh = self.fresh
        if stay and self.before.schema.ends_run_back:
            fresh = self._with_tombstones(self.before.runs[:stay], self.before.runs[stay:])
        extras = (run.extras for run in self.before.runs[stay:])
        schema = self.before.schema
        layout = RowLayout.of(schema, extras_of(fresh, schema).union(*extras))
        for part in merged(
            self.before.runs[stay:],
            self.before.sweeps,
            closed[stay:],
            fresh,
            self.merge.segment_rows,
            self.merge.segment_bytes,
            keep_tombstones=stay > 0,
        ):
            yield Segment.of(part.packed(schema, layout), self.policy, with_filter=with_filter)

    def with_run(self, run: Run | None) -> Runs:
        """The next runs; `run` contains the written `segments()`, None if there were none."""
        stay = len(self.before.runs) - self.taken
        runs = self.before.runs[:stay] + ((run,) if run else ())
        oldest = min((run.batch_id for run in runs), default=self.batch_id)
        return replace(self.before, runs=runs, sweeps=since(self._sweeps, oldest), live=self.live)

    def in_memory(self) -> Runs:
        """The next runs without a file."""
        segments = list(self.segments())
        if not segments:
            return self.with_run(None)
        run = run_in_memory(segments, self.before.schema, self.policy, self.batch_id)
        return self.with_run(run)

    @property
    def _sweeps(self) -> Sweeps:
        return with_sweep(self.before.sweeps, self.policy, self.sweep_at_ms, self.batch_id)

    def _with_tombstones(self, older: tuple[Run, ...], taken: tuple[Run, ...]) -> Rows:
        """The batch's rows, and tombstones for closed rows whose removal would bring back an older
        row of their key.
        """
        schema = self.before.schema
        staying = replace(self.before, runs=older, sweeps=self._sweeps)
        parts = [self.fresh]
        for at, run in enumerate(taken):
            passed = run.closed_by(self._sweeps)
            if not passed:
                continue
            is_over = run.are_swept(0, len(run), passed) & ~run.are_tombstones(0, len(run))
            replaced = run.look_up(self.fresh.hashes, self.fresh.keys)
            is_over[replaced[replaced >= 0]] = False
            begin = 0
            for hashes, keys in run.keys_in_portions(0, len(run)):
                over = np.flatnonzero(is_over[begin : begin + len(hashes)])
                begin += len(hashes)
                never = np.full(len(over), NEVER_MS)
                blank = [column.blanks(len(over)) for column in schema.columns]
                lives = Lives(never, never, never, never)
                tombs = Rows(hashes[over], take_keys(keys, over), lives, blank)
                tombs = tombs.take(staying.look_up(tombs.hashes, tombs.keys)[0] >= 0)
                is_shadowed = _shadowed([(tombs.hashes, tombs.keys)], taken[at + 1 :])
                parts.append(tombs.take(~is_shadowed))
        every = np.concatenate([part.hashes for part in parts])
        return Rows.gathered(parts, np.argsort(every, kind="stable"))


def _shadowed(parts: Iterable[tuple[Ints, Keys]], newer: Sequence[Run]) -> npt.NDArray[np.bool_]:
    """Which keys are in a newer run; takes the sorted hashes and the keys of each part."""
    found = [np.zeros(0, dtype=bool)]
    for hashes, keys in parts:
        is_in = np.zeros(len(hashes), dtype=bool)
        for run in newer:
            is_in |= run.look_up(hashes, keys) >= 0
        found.append(is_in)
    return np.concatenate(found)

"""One input of a join in one batch: its rows in state, its new rows, and which of them have
matched.

A row in state is a life that ends by the policy of its input, or after the time of its last
possible partner (`wakes`). It is written once. If it finds a match later, a second table gets a row
that ends at the same time; so rows are not rewritten, and a sweep removes both without a write.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.fields import Field, join, take
from idlestate.backends.runs.keys import are_equal, take_keys
from idlestate.backends.runs.leaving_rows import lives_of, portions
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.sweeps import timed
from idlestate.backends.runs.table_runs import Next, Runs
from idlestate.backends.shards.join_matches import JoinRows, distinct
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.stream_join import FAR_MS, JoinInput
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS, Reason, is_due

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_NONE = np.zeros(0, dtype=np.int64)
_DENSE, _SPACE = 1e9, 2.0
"""Rows are never replaced and end on their own, so a merge pays off when half of them have ended.
"""


@dataclass(frozen=True, slots=True)
class Loose:
    """Rows that are emitted without a partner."""

    keys: list[pa.Array]
    columns: list[Field]


@dataclass(frozen=True)
class JoinSide:
    """One input of a join in one batch."""

    of: JoinInput
    runs: Runs
    marks: Runs | None
    """Which rows have found a match since they were written."""
    policy: Policy
    """It has a rule (`timed`)."""
    stored: Rows
    """Rows in state that a new row of the other input may match."""
    fresh: Rows
    """New rows as they would be stored, but without numbers and without rows with null keys."""
    rows: JoinRows
    """Stored and new rows, to be matched."""

    @classmethod
    def opened(
        cls,
        of: JoinInput,
        tables: tuple[Runs, Runs | None],
        policy: Policy,
        steps: Steps,
        columns: list[Field],
        at: Ints,
        asked: Ints,
    ) -> "JoinSide":
        """The input in this batch.

        Args:
            of: what the join does with its rows.
            tables: its rows, and which of them have found a match.
            policy: the policy of its rows.
            steps: the records of the batch.
            columns: this input's columns of all records.
            at: which records are its new rows.
            asked: the numbered keys whose rows in state are looked up.
        """
        key_of_record = np.repeat(np.arange(len(steps)), steps.counts)
        key, t_ms = key_of_record[at], steps.t_ms[at]
        never = np.full(len(at), NEVER_MS)
        wakes_ms = np.full(len(at), FOREVER_MS) if of.reach_ms >= FAR_MS else t_ms + of.reach_ms
        lives = Lives(t_ms, t_ms, never, never, wakes_ms)
        payload = [take(column, at) for column in columns]
        fresh = Rows(steps.hashes[key], take_keys(steps.keys, key), lives, payload)
        stored, stored_key = _stored(tables[0], steps, asked)
        first = int(of.counts_matches)
        rows = JoinRows(
            np.concatenate([stored_key, key]),
            np.concatenate([stored.lives.written_at_ms, t_ms]),
            [join(both) for both in zip(stored.payload[first:], payload, strict=True)],
            len(stored),
        )
        return cls(of, *tables, timed(policy), stored, fresh, rows)

    def first_matches(self, is_matched: Flags) -> Flags:
        """Which of the rows matched in this batch had no match before."""
        found = is_matched.copy()
        hit = np.flatnonzero(is_matched[: len(self.stored)])
        found[hit] = ~self._are_marked(self.stored.take(hit))
        return found

    def due(self, sweep_at_ms: int | None) -> Ints:
        """Positions of the rows in state that end now."""
        return self.runs.due(self.policy, sweep_at_ms, _NONE)

    def unmatched(
        self, is_matched: Flags, due: Ints, sweep_at_ms: int | None, most_bytes: int
    ) -> Iterator[Loose]:
        """The rows that end now without a match: rows in state in portions of about this many
        bytes, and new ones.
        """
        for ended in portions(self.runs, due, most_bytes):
            rows = ended.take(~self._are_marked(ended))
            yield Loose(rows.keys, rows.payload[1:])
        gone = self.fresh.take(~is_matched[self.rows.stored :] & self._are_over(sweep_at_ms))
        yield Loose(gone.keys, gone.payload)

    def following(
        self,
        is_matched: Flags,
        due: Ints,
        sweep_at_ms: int | None,
        batch_id: int,
        merge: MergePolicy,
        *,
        keeps_matched: bool,
    ) -> Next:
        """The rows in state after the batch.

        Args:
            is_matched: which of `rows` matched in this batch.
            due: the result of `due`.
            sweep_at_ms: how far the sweep goes.
            batch_id, merge: as in `Runs.after`.
            keeps_matched: whether matched rows stay in state.
        """
        is_new_matched = is_matched[self.rows.stored :]
        is_kept = ~self._are_over(sweep_at_ms)
        fresh = self.fresh
        if self.of.counts_matches:
            numbers = (batch_id << 32) + np.arange(len(fresh))
            numbers[is_new_matched] = -1
            fresh = replace(fresh, payload=[numbers, *fresh.payload])
            is_kept &= keeps_matched | ~is_new_matched
        fresh = fresh.take(is_kept)
        return self._after(self.runs, fresh, due, sweep_at_ms, batch_id, merge)

    def following_marks(
        self, is_first: Flags, sweep_at_ms: int | None, batch_id: int, merge: MergePolicy
    ) -> Next:
        """The table of matched rows after the batch; `is_first` comes from `first_matches`."""
        assert self.marks is not None
        hit = np.flatnonzero(is_first[: len(self.stored)])
        hit = hit[np.argsort(self.stored.hashes[hit], kind="stable")]
        lives, numbers = self.stored.lives.take(hit), np.asarray(self.stored.payload[0])[hit]
        fresh = Rows(self.stored.hashes[hit], [], lives, [numbers])
        due = self.marks.due(self.policy, sweep_at_ms, _NONE)
        return self._after(self.marks, fresh, due, sweep_at_ms, batch_id, merge)

    def reasons(self, due: Ints) -> Ints:
        """The number of rows that end now, by `Reason`."""
        lives = lives_of(self.runs, due)
        ends = lives.ends(self.policy)
        by_policy = ends.deadline_ms <= np.asarray(lives.with_wakes.wakes_at_ms)
        reasons = np.where(by_policy, ends.reason, int(Reason.LIFETIME))
        return np.bincount(reasons, minlength=len(Reason))

    def _after(
        self,
        runs: Runs,
        fresh: Rows,
        due: Ints,
        sweep_at_ms: int | None,
        batch_id: int,
        merge: MergePolicy,
    ) -> Next:
        live = runs.live - len(due) + len(fresh)
        merge = replace(merge, dense=_DENSE, space=_SPACE)
        return runs.after(fresh, due, live, self.policy, sweep_at_ms, batch_id, merge)

    def _are_over(self, sweep_at_ms: int | None) -> Flags:
        """Which of the new rows end now."""
        if sweep_at_ms is None:
            return np.zeros(len(self.fresh), dtype=bool)
        found: Flags = is_due(self.fresh.lives.due_ms(self.policy), sweep_at_ms)
        return found

    def _are_marked(self, rows: Rows) -> Flags:
        """Which of these rows in state had a match before the batch."""
        assert self.marks is not None
        numbers = np.asarray(rows.payload[0])
        hashes = distinct(rows.hashes)
        _, marks = self.marks.between(hashes, hashes)
        found: Flags = (numbers == -1) | np.isin(numbers, np.asarray(marks.payload[0]))
        return found


def _stored(runs: Runs, steps: Steps, asked: Ints) -> tuple[Rows, Ints]:
    """The open rows with these keys, and the number of each row's key."""
    hashes = distinct(steps.hashes[asked])
    positions, rows = runs.between(hashes, hashes)
    rows = rows.take(~runs.are_swept(positions, rows))
    key = np.full(len(rows), -1)
    pending, at = np.arange(len(rows)), np.searchsorted(steps.hashes, rows.hashes)
    while len(pending):
        pending = pending[at[pending] < len(steps)]
        pending = pending[steps.hashes[at[pending]] == rows.hashes[pending]]
        same = are_equal(take_keys(rows.keys, pending), take_keys(steps.keys, at[pending]))
        key[pending[same]] = at[pending[same]]
        pending = pending[~same]
        at[pending] += 1
    return rows.take(key >= 0), key[key >= 0]

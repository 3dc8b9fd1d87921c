"""Sweeps and compaction: work in the background, a bounded step at a time.

A step looks at one shard. It computes without the lock and counts only if nobody changed the shard
meanwhile; so a batch or a write waits for no more than the writing of what a step closed. Where
writes come so thick that steps are in vain, every other one holds the lock.
"""

import contextlib
from dataclasses import replace

import numpy as np

from idlestate.backends.merge import MergePolicy
from idlestate.backends.sidecar.errors import DamagedError
from idlestate.backends.sidecar.operator_record import OperatorRecord
from idlestate.backends.sidecar.operator_state import OperatorState
from idlestate.backends.sidecar.shard_record import ShardRecord
from idlestate.backends.steps import Steps
from idlestate.timers.clock import Clock

STEP_ROWS = 20_000
"""About how many lives one step closes; more only if they end in the same millisecond."""
_CLOSE = MergePolicy(dense=1e9, space=1e9)
"""A sweep writes no rows of lives: they are given back by compaction."""
_COMPACT = MergePolicy()


class Sweeper:
    """The background work of one operator."""

    def __init__(self, state: OperatorState) -> None:
        """Nothing is done yet."""
        self._state = state
        self._in_vain = False

    def sweep(self, to_ms: int, clock: Clock, budget_ms: int) -> bool:
        """Close what is due until the budget is used up; whether something is left.

        Args:
            to_ms: close lives with deadlines at or before this.
            clock: measures the budget.
            budget_ms: at least one step is done.
        """
        ends_s = clock.monotonic_s() + budget_ms / 1000
        while self._sweep_step(to_ms):
            if clock.monotonic_s() >= ends_s:
                return True
        return False

    def compact(self) -> bool:
        """Give back what the shard with the most dead rows holds in vain; whether it did."""
        record, shards = self._state.record, self._state.shards
        at = max(range(len(shards)), key=lambda i: shards[i].current.rows - shards[i].current.live)
        shard = shards[at]
        if shard.current.rows <= max(_COMPACT.space * shard.current.live, _COMPACT.floor_rows):
            return False
        return self._try(record, at, shard, None, _COMPACT)

    def _sweep_step(self, to_ms: int) -> bool:
        """One step; whether there may be another."""
        with self._state.lock if self._in_vain else contextlib.nullcontext():
            record, shards = self._state.record, self._state.shards
            if record.open is not None or record.stopped is not None:
                return False
            due = [at for at, shard in enumerate(shards) if shard.next_end_ms <= to_ms]
            if not due:
                return False
            at = min(due, key=lambda i: shards[i].next_end_ms)
            reach_ms = self._reachable(record, at, to_ms)
            self._in_vain = not self._try(record, at, shards[at], reach_ms, _CLOSE)
            return True

    def _reachable(self, record: OperatorRecord, at: int, to_ms: int) -> int:
        """How far a sweep gets with about `STEP_ROWS` lives."""
        current = self._state.table(at).current
        rows = current.due(record.policy, to_ms, np.zeros(0, dtype=np.int64))
        if len(rows) <= STEP_ROWS:
            return to_ms
        ends_ms = current.take(rows, keys=False).lives.ends(record.policy).deadline_ms
        return int(np.partition(ends_ms, STEP_ROWS)[STEP_ROWS])

    def _try(
        self,
        record: OperatorRecord,
        at: int,
        shard: ShardRecord,
        to_ms: int | None,
        merge: MergePolicy,
    ) -> bool:
        """A step of one shard, if nobody changes it meanwhile; whether it counted."""
        state, version = self._state, record.version + 1
        nothing = Steps.empty(state.spec)
        try:
            stepped = state.step(
                shard, nothing, record.policy, to_ms, version, merge, record.committed
            )
        except DamagedError:
            if state.shards[at] is shard:
                raise
            return False  # merged meanwhile, and its runs are gone for a good reason
        with state.lock:
            now = state.record
            if state.shards[at] is not shard or now.open is not None:
                return False
            reached = replace(
                now, version=max(now.version, version), time_ms=max(now.time_ms, to_ms or 0)
            )
            state.save(
                reached,
                {at: stepped.shard},
                stepped.values,
                expired=stepped.expired,
            )
        return True

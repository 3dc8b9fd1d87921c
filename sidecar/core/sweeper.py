"""Sweeps and compaction: background work in bounded steps.

A step works on one shard. It computes without the lock, and takes effect only if the shard was not
changed in the meantime. If frequent writes make steps fail, every second step holds the lock, so
that a batch or a write may wait for a whole step. Steps therefore take about `_STEP_S`: each closes
lives up to a time that limits their number, which follows from the duration of previous steps.
"""

import contextlib
import threading
from dataclasses import dataclass, field, replace

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.metrics.families import COMPACTION_DURATION, SWEEP_DURATION
from idlestate.sidecar.core.operator_contents import OperatorContents
from idlestate.sidecar.core.operator_record import OperatorRecord
from idlestate.sidecar.core.shard_executor import ShardExecutor, StepParameters, StepResult
from idlestate.sidecar.protocol.errors import DamagedDirectoryError
from idlestate.timers.clock import Clock

_STEP_S = 0.01
_FIRST_ROWS, _LEAST_ROWS, _MOST_ROWS = 2_000, 250, 100_000
_COMPACT = MergePolicy()


@dataclass
class Pace:
    """The approximate number of lives that a step closes; more only if they end in the same
    millisecond.
    """

    rows: int = _FIRST_ROWS
    _plans: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    """For each shard, the approximate number of lives per step, and the times up to which steps
    sweep.
    """

    def took(self, seconds: float) -> None:
        """Note the duration of a step, so that the next one takes about `_STEP_S`."""
        factor = min(2.0, max(0.5, _STEP_S / max(seconds, 1e-6)))
        self.rows = min(_MOST_ROWS, max(_LEAST_ROWS, round(self.rows * factor)))

    def plan(self, at: int, cuts: list[int]) -> None:
        """Set the times for a shard's steps, with about `rows` ending lives between them."""
        self._plans[at] = (self.rows, cuts)

    def again(self, at: int, reach_ms: int) -> None:
        """Note a step that did not take effect."""
        self._plans[at][1].insert(0, reach_ms)

    def reach_ms(self, at: int) -> int | None:
        """The time up to which the next step of a shard sweeps; None if it must be planned."""
        rows, cuts = self._plans.get(at, (0, []))
        if not cuts or 2 * self.rows < rows:
            return None
        steps = min(len(cuts), max(1, self.rows // rows))
        reach_ms = cuts[steps - 1]
        del cuts[:steps]
        return reach_ms


class Sweeper:
    """The background work of one operator.

    Attributes:
        swept_ms: when a sweep last left nothing overdue, ms since the epoch; 0 before the first.
        compacted_ms: when compaction last had nothing left to do; 0 before the first.
    """

    def __init__(self, state: OperatorContents) -> None:
        """Start without any work done."""
        self._state = state
        # If an operator has its own step, only that step knows which rows are dead, and merges
        # them.
        self._merges = not state.spec.has_own_step
        self._in_vain = False
        self._turn = threading.Lock()
        self._begun_s: float | None = None
        self.pace = Pace()
        self.swept_ms = self.compacted_ms = 0

    def sweep(self, to_ms: int, clock: Clock, budget_ms: int) -> bool:
        """Close what is due until the budget is used up; return whether something is left.

        Args:
            to_ms: close lives with deadlines at or before this.
            clock: measures the budget.
            budget_ms: at least one step is done.
        """
        with self._turn:  # the end of bounded input also sweeps, in parallel with the background
            begun_s = clock.monotonic_s()
            if self._begun_s is None and self._due(to_ms):
                self._begun_s = begun_s
            while self._sweep_step(to_ms, clock):
                if clock.monotonic_s() >= begun_s + budget_ms / 1000:
                    return True
            if not self._due(to_ms):
                self._note_swept(clock)
            return False

    def _note_swept(self, clock: Clock) -> None:
        self.swept_ms = clock.now_ms()
        if self._begun_s is not None:
            self._state.took(SWEEP_DURATION, self._begun_s)
            self._begun_s = None

    def compact(self) -> bool:
        """Compact the shard with the most dead rows; return whether there was one."""
        record, shards = self._state.now
        sparse = [
            (shard.current.rows - shard.current.live, at)
            for at, shard in enumerate(shards)
            if self._merges and _COMPACT.is_sparse(shard.current.rows, shard.current.live)
        ]
        if self._stands_still(record) or not sparse:
            if not sparse:
                self.compacted_ms = self._state.clock.now_ms()
            return False
        _, at = max(sparse)
        shard, executor = shards[at], self._state.executor
        begun_s = self._state.clock.monotonic_s()
        merged = self._step(executor, record, at, shard, None)
        if merged is None or not self._count(executor, at, shard, merged, record.version + 1, 0):
            return False
        self._state.took(COMPACTION_DURATION, begun_s)
        return True

    def _sweep_step(self, to_ms: int, clock: Clock) -> bool:
        """Do one step; return whether there may be another."""
        reach_ms, at = self._next(to_ms)
        if at is None:
            return False
        with self._state.lock if self._in_vain else contextlib.nullcontext():
            begun_s = clock.monotonic_s()
            record, shards = self._state.now
            shard, executor = shards[at], self._state.executor
            if self._stands_still(record):
                return False
            closed = self._step(executor, record, at, shard, reach_ms)
            self._in_vain = closed is None or not self._count(
                executor, at, shard, closed, record.version + 1, reach_ms
            )
            self.pace.took(clock.monotonic_s() - begun_s)
        if self._in_vain:
            self.pace.again(at, reach_ms)
        return True

    def _next(self, to_ms: int) -> tuple[int, int | None]:
        """The shard of the next step, and the time up to which it sweeps (None: there is none)."""
        record, shards = self._state.now
        due = self._due(to_ms)
        if self._stands_still(record) or not due:
            return to_ms, None
        at = min(due, key=lambda i: shards[i].next_end_ms)
        reach_ms = self.pace.reach_ms(at)
        if reach_ms is None:
            parameters = StepParameters(record.policy, to_ms, record.version, record.committed)
            executor, rows = self._state.executor, self.pace.rows
            cuts = self._state.read(lambda _, now: executor.cuts(now[at], at, parameters, rows))
            self.pace.plan(at, cuts)
            reach_ms = self.pace.reach_ms(at)
        assert reach_ms is not None
        return min(reach_ms, to_ms), at

    def _due(self, to_ms: int) -> list[int]:
        """The shards in which lives may have ended by this time. With rows in order, only batches
        close lives: waiting rows may precede a deadline, and their results are emitted with a
        batch.
        """
        if self._state.spec.ends_by_batches:
            return []
        return [at for at, each in enumerate(self._state.shards) if each.next_end_ms <= to_ms]

    def _step(
        self,
        executor: ShardExecutor,
        record: OperatorRecord,
        at: int,
        shard: ShardRecord,
        to_ms: int | None,
    ) -> StepResult | None:
        """The result of a step for a shard, which closes what is due at `to_ms`, or else merges;
        None if the shard was changed in the meantime.
        """
        shards = self._state.shards
        now_ms = self._state.clock.now_ms()
        parameters = StepParameters(
            record.policy, to_ms or 0, record.version + 1, record.committed, now_ms
        )
        try:
            return (
                executor.merge(shard, at, parameters)
                if to_ms is None
                else executor.close(shard, at, parameters)
            )
        except DamagedDirectoryError:
            if shards[at] is shard and not self._state.have_changed(shards):
                raise
            return None  # merged in the meantime, which removed its runs

    def _count(
        self,
        executor: ShardExecutor,
        at: int,
        shard: ShardRecord,
        stepped: StepResult,
        version: int,
        to_ms: int,
    ) -> bool:
        """Apply a step, and return whether it took effect; it does not if its shard or the
        operator's definition changed in the meantime.
        """
        state = self._state
        with state.lock:
            now = state.record
            is_other = state.executor is not executor or state.shards[at] is not shard
            if is_other or self._stands_still(now):
                state.executor.discard([stepped])
                return False
            after = replace(now, version=max(now.version, version), time_ms=max(now.time_ms, to_ms))
            state.save(after, {at: stepped.shard}, stepped.values, expired=stepped.expired)
        return True

    def _stands_still(self, record: OperatorRecord) -> bool:
        """Whether a batch uses the tables, or earlier writes are waiting."""
        is_held = record.open is not None or record.stopped is not None
        return is_held or bool(self._state.waiting)

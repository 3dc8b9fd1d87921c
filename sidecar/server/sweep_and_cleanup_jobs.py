"""The background jobs of the sidecar: settle, sweep, compact, trim, tidy. Each is short, or has a
time limit.
"""

import threading
from collections.abc import Callable

from idlestate.config.sidecar_settings import Sidecar
from idlestate.retention.rules import NEVER_MS
from idlestate.sidecar.core.operator import Operator
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.protocol.errors import BusyError, SidecarError
from idlestate.sidecar.server.job_scheduler import Scheduler
from idlestate.timers.steady_clock import SteadyClock

_SETTLE_MS = 500
_COMPACT_MS = 5_000
_TRIM_MS = 30_000
_TIDY_MS = 1_000
_JOIN_MS = 3_000
"""After this time, the rest of the joins waits for the next run."""
_SPANS = 100
"""Entries within this fraction (1/100) of the retention are joined."""
_SLICES = 5
"""Slices of a sweep's time: after each, waiting threads get the processor and the lock."""
_REST = 3
"""After a slice, a sweep pauses for this many times its length, as long as it keeps up."""
_LATE_MS = 30_000
"""A sweep with lives overdue for this long pauses no longer than it works."""


class Background:
    """The jobs of one sidecar."""

    def __init__(
        self, host: Host, clock: SteadyClock, settings: Sidecar, stopping: threading.Event
    ) -> None:
        """Start without any work done."""
        self._host = host
        self._clock = clock
        self._settings = settings
        self._stopping = stopping

    def plan(self, scheduler: Scheduler) -> None:
        """Schedule the jobs."""
        scheduler.add("settle", _SETTLE_MS, self.settle)
        scheduler.add("sweep", self._settings.sweep_every_ms, self.sweep, pool="sweep")
        scheduler.add("compact", _COMPACT_MS, self.compact, pool="sweep")
        scheduler.add("trim", _TRIM_MS, self.trim)
        scheduler.add("tidy", _TIDY_MS, self._host.placement.tidy)

    def settle(self) -> None:
        """Commit prepared batches that their queries have committed."""
        self._each(lambda operator: operator.batches.settle())

    def sweep(self) -> None:
        """Close what is due until nothing is left or the sidecar stops: operators alternate, one
        slice each. Compaction runs in between, however long it takes.
        """
        failed: list[SidecarError] = []
        left = list(self._host)
        compacted_s = self._clock.monotonic_s()
        while left:
            left = [each for each in left if self._tried(self._sweep, each, failed)]
            if self._clock.monotonic_s() > compacted_s + _COMPACT_MS / 1000:
                for each in left:
                    self._tried(lambda operator: operator.sweeper.compact(), each, failed)
                compacted_s = self._clock.monotonic_s()
        if failed:
            raise failed[0]

    def compact(self) -> None:
        """Compact shards with closed lives, one shard at a time."""
        self._each(self._compact)

    def trim(self) -> None:
        """Remove expired records that are no longer needed, and join small entries of others."""
        retention_ms = self._settings.expired_retention_ms
        older_than_ms = self._clock.now_ms() - retention_ms
        until_s = self._clock.monotonic_s() + _JOIN_MS / 1000

        def trim(operator: Operator) -> None:
            operator.trim(older_than_ms)
            while operator.joins.step(retention_ms // _SPANS):
                if self._stopping.is_set() or self._clock.monotonic_s() >= until_s:
                    return

        self._each(trim)

    def _each(self, job: Callable[[Operator], object]) -> None:
        """Run a job for every operator: a damaged one does not stop the others.

        Raises:
            SidecarError: the first error, raised after the job has run for all operators.
        """
        failed: list[SidecarError] = []
        for operator in self._host:
            self._tried(job, operator, failed)
        if failed:
            raise failed[0]

    def _tried(
        self, job: Callable[[Operator], object], operator: Operator, failed: list[SidecarError]
    ) -> object:
        """The result of a job; None if it failed."""
        try:
            return job(operator)
        except BusyError:
            pass  # a worker is being restarted
        except SidecarError as error:
            failed.append(error)
        return None

    def _sweep(self, operator: Operator) -> bool:
        """Sweep for a slice, then pause; return whether there is more to close."""
        slice_ms = max(1, self._settings.sweep_time_ms // _SLICES)
        if self._stopping.is_set() or self._clock.is_stepped:
            return False
        due_ms = operator.due_ms(self._clock.now_ms())
        if not operator.sweeper.sweep(due_ms, self._clock, slice_ms):
            return False
        rest = 1 if self._is_late(operator) else _REST
        self._stopping.wait(rest * slice_ms / 1000)
        return True

    def _is_late(self, operator: Operator) -> bool:
        """Whether lives that ended long ago are still open; never in event time, in which the query
        sets the pace.
        """
        ends_ms = min(shard.next_end_ms for shard in operator.state.shards)
        if operator.state.is_event_time or ends_ms == NEVER_MS:  # the next sweep finds out
            return False
        return self._clock.now_ms() - ends_ms > _LATE_MS

    def _compact(self, operator: Operator) -> None:
        while not self._stopping.is_set() and operator.sweeper.compact():
            self._stopping.wait(self._settings.sweep_time_ms / 1000)

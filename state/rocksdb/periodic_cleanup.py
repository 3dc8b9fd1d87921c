"""Periodic cleanup: a walk that drops expired values, in portions beside accesses to the state."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from idlestate.state.errors import DamagedFileError, StateStoreError
from idlestate.state.rocksdb.compaction_filter import CompactionWalk
from idlestate.timers.clock import Clock

ROWS_A_SECOND: Final = 50_000
"""The maximum speed of a periodic walk: about a twentieth of its full speed."""

LEAST: Final = 1_000
MOST: Final = 10_000
"""Rows or lists of one portion: fewer are not worth the start, more would cause a pause."""


class PeriodicCleanup:
    """Starts a walk once per period, and does it in portions during accesses to the state.

    An access does the work for the time since the previous one, at `ROWS_A_SECOND`. So an expired
    value is removed at most one period later, as long as the state is used.
    """

    def __init__(
        self,
        begin: Callable[[], CompactionWalk],
        period_ms: int,
        clock: Clock,
        last_ms: int,
        record: Callable[[int], None],
    ) -> None:
        """A cleanup between walks.

        Args:
            begin: creates a walk.
            period_ms: from the start of one walk to the start of the next, above 0.
            clock: measures the period.
            last_ms: when the last finished walk started.
            record: stores this time durably.
        """
        self._begin, self._period_ms, self._clock = begin, period_ms, clock
        self._last_ms, self._record = last_ms, record
        self._walk: CompactionWalk | None = None
        self._begun_ms = last_ms
        self._at_s = clock.monotonic_s()

    def step(self) -> None:
        """Called by each access to the state."""
        passed_s = self._clock.monotonic_s() - self._at_s
        limit = int(passed_s * ROWS_A_SECOND)
        if limit < LEAST:
            return
        self._at_s += passed_s
        with suppress(StateStoreError, DamagedFileError):  # the access raises it; the walk stays
            self._go_on(min(limit, MOST))

    def _go_on(self, limit: int) -> None:
        if self._walk is None:
            now_ms = self._clock.now_ms()
            self._last_ms = min(self._last_ms, now_ms)  # the clock may have been set back
            if now_ms - self._last_ms < self._period_ms:
                return
            self._walk, self._begun_ms = self._begin(), now_ms
        if self._walk.go_on(limit):
            self._walk, self._last_ms = None, self._begun_ms
            self._record(self._begun_ms)

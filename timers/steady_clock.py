"""A clock that ignores jumps of the wall clock.

The wall clock is compared with the monotonic one. If they differ by more than `max_step_ms` since
they last agreed, the wall clock was set or is broken: time then follows the monotonic clock, and
`is_stepped` is true, until the wall clock returns or an operator accepts it. Smaller corrections
are followed. A restart reads the wall clock again: the time in between counts as downtime.
"""

import threading

from idlestate.timers.clock import Clock

MAX_STEP_MS = 300_000


class SteadyClock:
    """A steady clock over another clock.

    Args:
        clock: the system's clock.
        max_step_ms: the largest correction that is followed.
    """

    def __init__(self, clock: Clock, max_step_ms: int = MAX_STEP_MS) -> None:
        self._clock = clock
        self._max_step_ms = max_step_ms
        self._lock = threading.Lock()
        self._offset_ms = self._measured_ms()
        self._stepped = False

    @property
    def is_stepped(self) -> bool:
        """Whether the wall clock is ignored now."""
        self.now_ms()
        return self._stepped

    @property
    def divergence_ms(self) -> int:
        """How far the wall clock is ahead of where it should be; negative if it is behind."""
        with self._lock:
            return self._measured_ms() - self._offset_ms

    @property
    def wall_offset_ms(self) -> int:
        """How far the wall clock is ahead of the monotonic one, whether it is ignored or not."""
        return self._measured_ms()

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, by the wall clock unless it is ignored."""
        with self._lock:
            measured_ms = self._measured_ms()
            self._stepped = abs(measured_ms - self._offset_ms) > self._max_step_ms
            if not self._stepped:
                self._offset_ms = measured_ms
            return self._offset_ms + round(self._clock.monotonic_s() * 1000)

    def monotonic_s(self) -> float:
        """Seconds by the monotonic clock."""
        return self._clock.monotonic_s()

    def accept(self) -> None:
        """Accept the wall clock as it is now."""
        with self._lock:
            self._offset_ms = self._measured_ms()
            self._stepped = False

    def _measured_ms(self) -> int:
        return self._clock.now_ms() - round(self._clock.monotonic_s() * 1000)

"""A clock that does not believe in leaps.

The wall clock is compared with the monotonic one. While they are more than `max_step_ms` further
apart than when they last agreed, somebody has set the wall clock, or it is broken: time then goes
on by the monotonic clock, and `is_stepped` says so, until the wall clock comes back or a person
accepts it. Smaller corrections are followed. A restart asks the wall clock afresh: what
passed meanwhile counts as downtime.
"""

import threading

from idlestate.timers.clock import Clock

MAX_STEP_MS = 300_000


class SteadyClock:
    """A clock over another one.

    Args:
        clock: the machine's.
        max_step_ms: how far the wall clock may be set at once.
    """

    def __init__(self, clock: Clock, max_step_ms: int = MAX_STEP_MS) -> None:
        self._clock = clock
        self._max_step_ms = max_step_ms
        self._lock = threading.Lock()
        self._offset_ms = self._measured_ms()
        self._stepped = False

    @property
    def is_stepped(self) -> bool:
        """Whether the wall clock is not believed now."""
        self.now_ms()
        return self._stepped

    @property
    def divergence_ms(self) -> int:
        """How far the wall clock is ahead of where it should be; negative when it is behind."""
        with self._lock:
            return self._measured_ms() - self._offset_ms

    @property
    def wall_offset_ms(self) -> int:
        """How far the wall clock is ahead of the monotonic one, whether it is believed or not."""
        return self._measured_ms()

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, by the wall clock as far as it is believed."""
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
        """Believe the wall clock as it is now."""
        with self._lock:
            self._offset_ms = self._measured_ms()
            self._stepped = False

    def _measured_ms(self) -> int:
        return self._clock.now_ms() - round(self._clock.monotonic_s() * 1000)

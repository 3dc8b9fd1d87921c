"""Clocks. Code that needs the time takes a `Clock`; only this file reads the system clock."""

import time
from typing import Protocol

from idlestate.timers.timer import time_from


class Clock(Protocol):
    """A source of time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""

    def monotonic_s(self) -> float:
        """Seconds since a fixed moment; never goes backwards."""


class SystemClock:
    """The system's clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC by the wall clock."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds by the monotonic clock."""
        return time.monotonic()


class FakeClock:
    """A clock for tests; it moves only with `advance`."""

    def __init__(self, now_ms: int = 0) -> None:
        """Start at this time."""
        self._now_ms = time_from(now_ms)

    def now_ms(self) -> int:
        """The time it was set to, in milliseconds."""
        return self._now_ms

    def monotonic_s(self) -> float:
        """The same in seconds."""
        return self._now_ms / 1000

    def advance(self, by_ms: int) -> None:
        """Move the clock forward by this many milliseconds."""
        self._now_ms = time_from(self._now_ms + by_ms)

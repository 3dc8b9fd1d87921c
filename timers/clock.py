"""Clocks. Everything that needs the time takes a `Clock`; only this file asks the machine."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment; never runs back."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC by the wall clock."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds by the monotonic clock."""
        return time.monotonic()


class FakeClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now_ms: int = 0) -> None:
        """Start at this time."""
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The time it was set to."""
        return self._now_ms

    def monotonic_s(self) -> float:
        """The same in seconds."""
        return self._now_ms / 1000

    def advance(self, by_ms: int) -> None:
        """Move on."""
        self._now_ms += by_ms

"""What tests of jobs use: a clock that stands still until it is moved."""

from idlestate.timers.clock import FakeClock

__all__ = ["FakeClock"]

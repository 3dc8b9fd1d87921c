"""A clock that ignores jumps of the wall clock."""

import pytest

from idlestate.timers.clock import FakeClock
from idlestate.timers.steady_clock import MAX_STEP_MS, SteadyClock

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


class SetClock(FakeClock):
    """A machine whose wall clock can be set."""

    def __init__(self) -> None:
        super().__init__(DAY_MS)
        self.set_by_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.set_by_ms


@pytest.mark.parametrize("by_ms", [DAY_MS, -HOUR_MS, MAX_STEP_MS + 1, -MAX_STEP_MS - 1])
def test_a_leap_is_not_believed_and_time_goes_on(by_ms: int) -> None:
    machine = SetClock()
    clock = SteadyClock(machine)
    machine.set_by_ms = by_ms
    assert clock.is_stepped
    assert clock.divergence_ms == by_ms
    machine.advance(1000)
    assert clock.now_ms() == DAY_MS + 1000


def test_a_leap_that_is_taken_back_is_over() -> None:
    machine = SetClock()
    clock = SteadyClock(machine)
    machine.set_by_ms = DAY_MS
    assert clock.is_stepped
    machine.set_by_ms = 0
    assert not clock.is_stepped


def test_a_person_may_accept_the_clock() -> None:
    machine = SetClock()
    clock = SteadyClock(machine)
    machine.set_by_ms = -HOUR_MS
    assert clock.is_stepped
    clock.accept()
    assert not clock.is_stepped
    assert clock.now_ms() == DAY_MS - HOUR_MS


@pytest.mark.parametrize("by_ms", [MAX_STEP_MS, -MAX_STEP_MS, 40, -40])
def test_small_corrections_are_followed(by_ms: int) -> None:
    machine = SetClock()
    clock = SteadyClock(machine)
    machine.set_by_ms = by_ms
    assert clock.now_ms() == DAY_MS + by_ms
    assert not clock.is_stepped
    assert clock.divergence_ms == 0

"""Calls to a sidecar that is away are repeated for as long as the caller has patience."""

import threading
from itertools import islice
from threading import Event

import pytest

from idlestate.sidecar.protocol.errors import AwayError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.protocol.retries import patiently, pauses_s
from idlestate.testing import FakeClock


@pytest.mark.parametrize("patience_s", [0.0, 0.5, 10.0])
def test_a_sidecar_is_waited_for_as_long_as_patience_says_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    clock, tried_s = FakeClock(), []

    class Waits(Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            clock.advance(round(1000 * timeout))
            return False

    def call() -> Message:
        tried_s.append(clock.monotonic_s() - begun_s)
        raise AwayError("away")

    monkeypatch.setattr(threading, "Event", Waits)
    begun_s = clock.monotonic_s()
    with pytest.raises(AwayError):
        patiently(call, lambda: patience_s, clock)
    assert tried_s[-1] == pytest.approx(patience_s)
    assert tried_s == sorted(set(tried_s))


def test_pauses_grow_to_five_seconds() -> None:
    assert [*islice(pauses_s(0.5), 6)] == [0.5, 1, 2, 4, 5, 5]

"""What clients hand over and what waits for them takes no more room than it may."""

import pytest

from idlestate.sidecar.protocol import transfers
from idlestate.sidecar.protocol.errors import BusyError, GoneError
from idlestate.sidecar.protocol.transfers import DEADLINE_S, Stage
from idlestate.timers.clock import FakeClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    monkeypatch.setattr(transfers, "MAX_BYTES", 100)
    return FakeClock(0)


def test_replies_that_nobody_fetches_take_room_until_their_deadline(clock: FakeClock) -> None:
    held = Stage(clock)
    held.add("a", (0, 0, 0), b"x" * 100, is_first=True)
    with pytest.raises(BusyError, match="let the query take smaller batches"):
        held.add("b", (0, 0, 0), b"y", is_first=True)
    held.reply("a", (b"x" * 50, b"x" * 50))
    with pytest.raises(BusyError):
        held.add("b", (0, 0, 0), b"y", is_first=True)
    clock.advance(round(DEADLINE_S * 1000) + 1)
    held.add("b", (0, 0, 0), b"y", is_first=True)
    with pytest.raises(GoneError):
        held.fetch("a", 0)


def test_a_reply_that_is_fetched_and_closed_gives_its_room_back(clock: FakeClock) -> None:
    held = Stage(clock)
    held.reply("a", (b"x" * 100,))
    assert held.fetch("a", 0) == b"x" * 100
    held.close("a")
    held.add("b", (0, 0, 0), b"y" * 100, is_first=True)
    assert held.packets("b") == {0: [b"y" * 100]}

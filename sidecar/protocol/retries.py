"""Retries of calls to a restarting process and of its starts: how long, and with which pauses."""

import threading
from collections.abc import Callable, Iterator

from idlestate.sidecar.protocol.errors import AwayError, BusyError
from idlestate.sidecar.protocol.message import Message
from idlestate.timers.clock import Clock

PATIENCE_S = 120.0
"""How long calls are repeated by default."""
CONNECT_TIMEOUT_S = 10.0
"""The same if the sidecar has never answered: then its address is more likely to be wrong."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0


def pauses_s(first_s: float = _FIRST_PAUSE_S) -> Iterator[float]:
    """The pauses between tries, in seconds: each is twice the one before, but at most 5 s."""
    while True:
        yield first_s
        first_s = min(2 * first_s, _LONGEST_PAUSE_S)


def patiently(
    call: Callable[[], Message], patience_s: Callable[[], float], clock: Clock
) -> Message:
    """Repeat a call, with growing pauses, while the server is unavailable or busy.

    Args:
        call: makes the call.
        patience_s: returns how long to retry; asked after each try.
        clock: measures the time.

    Raises:
        AwayError, BusyError: it still was at the end of that time.
    """
    begun_s = clock.monotonic_s()
    pauses = pauses_s()
    while True:
        try:
            return call()
        except (AwayError, BusyError):
            left_s = begun_s + patience_s() - clock.monotonic_s()
            if left_s <= 0:
                raise
        threading.Event().wait(min(next(pauses), left_s))

"""Retries of calls to a sidecar that restarts: how long a caller waits, and its pauses."""

import threading
from collections.abc import Callable

from idlestate.sidecar.protocol.errors import AwayError, BusyError
from idlestate.sidecar.protocol.message import Message
from idlestate.timers.clock import Clock

PATIENCE_S = 120.0
"""How long calls are repeated by default."""
CONNECT_TIMEOUT_S = 10.0
"""The same if the sidecar has never answered: then its address is more likely to be wrong."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 5.0


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
    wait_s = _FIRST_WAIT_S
    while True:
        try:
            return call()
        except (AwayError, BusyError):
            left_s = begun_s + patience_s() - clock.monotonic_s()
            if left_s <= 0:
                raise
        threading.Event().wait(min(wait_s, left_s))
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

"""The current exchanges with tasks, under handles with a deadline.

A task's exchange is a series of short calls: open, one chunk at a time, finish, and the reply
chunk by chunk. Its packets wait in the process that keeps its shards (`stage`). Nothing is durable
before `finish` has prepared it: if a handle is lost, the task tries again.
"""

import threading
from dataclasses import dataclass
from uuid import uuid4

from idlestate.sidecar.core.attempt import Attempt, Prepared
from idlestate.sidecar.protocol.errors import LOST, BusyError, GoneError
from idlestate.timers.clock import Clock

DEADLINE_S = 1800.0
MAX_EXCHANGES = 10_000


@dataclass(slots=True)
class Exchange:
    """One task's exchange."""

    uid: str
    attempt: Attempt
    begun_s: float
    prepared: Prepared | None = None


class Exchanges:
    """The exchanges of one sidecar, by handle.

    Args:
        clock: measures deadlines.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, Exchange] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, uid: str, attempt: Attempt) -> str:
        """The handle of a new exchange.

        Raises:
            BusyError: there are too many exchanges.
        """
        with self._lock:
            now_s = self._clock.monotonic_s()
            for handle in [
                h for h, each in self._open.items() if each.begun_s + DEADLINE_S < now_s
            ]:
                del self._open[handle]
            if len(self._open) >= MAX_EXCHANGES:
                raise BusyError(f"{MAX_EXCHANGES} exchanges are under way")
            handle = uuid4().hex
            self._open[handle] = Exchange(uid, attempt, now_s)
            return handle

    def get(self, handle: str) -> Exchange:
        """An exchange.

        Raises:
            GoneError: it is over.
        """
        with self._lock:
            if handle not in self._open:
                raise GoneError(LOST)
            return self._open[handle]

    def close(self, handle: str) -> Exchange | None:
        """Remove and return an exchange."""
        with self._lock:
            return self._open.pop(handle, None)

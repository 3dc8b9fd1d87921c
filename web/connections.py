"""The open connections of a server: at most so many, and who dawdles makes room for the next.

Otherwise a few clients that send their requests drop by drop keep everybody else out. One whose
request has arrived is left alone: its answer takes as long as it takes. So is one that has just
come: where many come at once, each next one waits for a moment instead.
"""

import socket
import threading
from contextlib import suppress
from time import monotonic
from typing import Final

GRACE_S: Final = 0.1
"""Who takes longer to ask dawdles: time for handshakes, and little where the next ones wait."""


class Connections:
    """Counts what is open.

    Args:
        most: how many may be open at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._asking: dict[socket.socket, float] = {}
        """Those whose requests have not arrived, the oldest first, and when they came."""
        self._asked: set[socket.socket] = set()
        self._changed = threading.Condition()

    def admit(self, connection: socket.socket) -> bool:
        """Take one in, in the place of the one that has dawdled for longest where that has to be;
        False: there is none of those.
        """
        with self._changed:
            while len(self._asking) + len(self._asked) >= self._most:
                if not self._asking:
                    return False
                slowest, came_s = next(iter(self._asking.items()))
                left_s = came_s + GRACE_S - monotonic()
                if left_s > 0:
                    self._changed.wait(left_s)
                else:
                    del self._asking[slowest]
                    _cut(slowest)
            self._asking[connection] = monotonic()
            return True

    def has_asked(self, connection: socket.socket) -> None:
        """Its request has arrived."""
        with self._changed:
            if connection in self._asking:
                del self._asking[connection]
                self._asked.add(connection)

    def forget(self, connection: socket.socket) -> None:
        """It is about to be closed: once it is, another socket may have its number."""
        with self._changed:
            self._asking.pop(connection, None)
            self._asked.discard(connection)
            self._changed.notify_all()

    def cut_all(self, timeout_s: float) -> None:
        """Cut every one, and wait until they are forgotten, though not for ever."""
        with self._changed:
            for each in (*self._asking, *self._asked):
                _cut(each)
            self._changed.wait_for(lambda: not (self._asking or self._asked), timeout=timeout_s)


def _cut(connection: socket.socket) -> None:
    # Not by what encrypts it, whose own `shutdown` lets its thread go on in the clear.
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)

"""The open connections of a server: at most so many, and who dawdles makes room for the next.

Otherwise a few clients that send their requests drop by drop keep everybody else out. One whose
request has arrived is left alone: its answer takes as long as it takes.
"""

import socket
import threading
from contextlib import suppress


class Connections:
    """Counts what is open.

    Args:
        most: how many may be open at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._asking: dict[socket.socket, None] = {}
        """Those whose requests have not arrived, the oldest first."""
        self._asked: set[socket.socket] = set()
        self._changed = threading.Condition()

    def admit(self, connection: socket.socket) -> bool:
        """Take one in, in the place of the one that has dawdled for longest where that has to be;
        False: there is none of those.
        """
        with self._changed:
            if len(self._asking) + len(self._asked) >= self._most:
                slowest = next(iter(self._asking), None)
                if slowest is None:
                    return False
                del self._asking[slowest]
                _cut(slowest)
            self._asking[connection] = None
            return True

    def has_asked(self, connection: socket.socket) -> None:
        """Its request has arrived."""
        with self._changed:
            if connection in self._asking:
                del self._asking[connection]
                self._asked.add(connection)

    def forget(self, connection: socket.socket) -> None:
        """It is closed."""
        with self._changed:
            self._asking.pop(connection, None)
            self._asked.discard(connection)
            self._changed.notify_all()

    def cut_all(self, timeout_s: float) -> None:
        """Cut every one, and wait until they are closed, though not for ever."""
        with self._changed:
            for each in (*self._asking, *self._asked):
                _cut(each)
            self._changed.wait_for(lambda: not (self._asking or self._asked), timeout=timeout_s)


def _cut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)

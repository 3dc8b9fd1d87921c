"""The open connections of a server: their number is limited, and slow ones make room for new ones;
fewer of them are answered at once.

Without this, a few clients that send their requests slowly would block all others. A connection
whose request has arrived is not closed, however long its answer takes. Neither is a new one: if
many connect at once, the next one waits for a moment.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final

MAX_CONNECTIONS: Final = 256
"""A thousand idle connections at once delay the next request by about 0.4 s."""
MAX_ANSWERS: Final = 16
ANSWER_WAIT_S: Final = 1.0
"""How long to wait for one of those to end, in seconds."""
GRACE_S: Final = 0.1
"""A connection without a request after this time is slow: long enough for handshakes, and short for
waiting clients.
"""


class Connections:
    """Tracks open connections.

    Args:
        most: the maximum number of open connections.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._asking: dict[socket.socket, float] = {}
        """Connections without a complete request, the oldest first, and when they were opened."""
        self._asked: set[socket.socket] = set()
        self._changed = threading.Condition()
        self._turns = threading.BoundedSemaphore(MAX_ANSWERS)

    def admit(self, connection: socket.socket) -> bool:
        """Admit a connection; if all are taken, the slowest one is closed for it. False if none is
        slow.
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
        """Note that its request has arrived."""
        with self._changed:
            if connection in self._asking:
                del self._asking[connection]
                self._asked.add(connection)

    @contextmanager
    def answering(self) -> Iterator[bool]:
        """Wait for a turn to answer; False if none came in time."""
        has_turn = self._turns.acquire(timeout=ANSWER_WAIT_S)
        try:
            yield has_turn
        finally:
            if has_turn:
                self._turns.release()

    def forget(self, connection: socket.socket) -> None:
        """Forget it, before it is closed: afterwards another socket may have its number."""
        with self._changed:
            self._asking.pop(connection, None)
            self._asked.discard(connection)
            self._changed.notify_all()

    def cut_all(self, timeout_s: float) -> None:
        """Close all connections, and wait up to `timeout_s` until their threads have noticed."""
        with self._changed:
            for each in (*self._asking, *self._asked):
                _cut(each)
            self._changed.wait_for(lambda: not (self._asking or self._asked), timeout=timeout_s)


def _cut(connection: socket.socket) -> None:
    # Not through TLS, whose `shutdown` lets the connection's thread continue unencrypted.
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)

"""Reads requests from clients that may be slow, send too much or have disconnected."""

import io
import socket
from time import monotonic
from typing import Any


class TooLongError(Exception):
    """The request is longer than the limit."""


class RequestReader(io.RawIOBase):
    """Reads a socket up to a deadline and a number of bytes."""

    def __init__(self, connection: socket.socket, timeout_s: float, max_bytes: int) -> None:
        self._connection = connection
        self._deadline_s = monotonic() + timeout_s
        self._bytes_left = max_bytes

    def expect(self, body_bytes: int, timeout_s: float) -> None:
        """Allow a body of this many bytes, which must arrive within `timeout_s`."""
        self._bytes_left += body_bytes
        self._deadline_s = monotonic() + timeout_s

    def readable(self) -> bool:
        """Always True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read the available bytes, at least one; 0 at the end.

        Raises:
            TooLongError: the request is longer than the limit.
            TimeoutError: the deadline has passed.
        """
        if self._bytes_left <= 0:
            raise TooLongError
        left_s = self._deadline_s - monotonic()
        if left_s <= 0:
            raise TimeoutError("the request is too slow")
        self._connection.settimeout(left_s)
        count = self._connection.recv_into(memoryview(buffer)[: self._bytes_left])
        self._bytes_left -= count
        return count

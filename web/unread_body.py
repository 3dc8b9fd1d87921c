"""Discards what a client still sends of a request that was refused before it was read."""

import socket
from contextlib import suppress
from time import monotonic
from typing import Final

DISCARD_S: Final = 1.0
DISCARD_BYTES: Final = 1 << 20


def discard_rest(connection: socket.socket) -> None:
    """Read the rest for a moment after an error reply: closing a connection with unread bytes
    resets it, and the client may never see the reply.
    """
    ends_s, left_bytes = monotonic() + DISCARD_S, DISCARD_BYTES
    # Not through TLS: the bytes are discarded.
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_WR)
        while left_bytes > 0 and (left_s := ends_s - monotonic()) > 0:
            connection.settimeout(left_s)
            received = len(socket.socket.recv(connection, 1 << 16))
            left_bytes -= received or left_bytes

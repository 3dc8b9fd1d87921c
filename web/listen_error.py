"""Errors of listening on an address, with the fix."""

import errno
import os
import socket

from idlestate.errors import RefusedError

MAX_SOCKET_PATH = 107


class ListenError(RefusedError, RuntimeError):
    """The server cannot listen on the address; the message says what to change."""


def explain(name: str, host: str, port: int | None, error: Exception) -> str:
    """The reason in words, for a port or (None) a Unix socket."""
    where = f"cannot serve {name} on {host}" + ("" if port is None else f" port {port}")
    if isinstance(error, OverflowError):
        return f"{where}: a port is a number from 0 to 65535"
    if isinstance(error, TypeError | ValueError):
        return f"{where}: pass the port as a number and the address as a string"
    match error:
        case OSError() if port is None and len(os.fsencode(host)) > MAX_SOCKET_PATH:
            why = f"sockets have paths of at most {MAX_SOCKET_PATH} bytes; give a shorter one"
        case PermissionError():
            why = "this user may not listen there; give a port from 1024 on"
            if port is None:
                why = "this user may not make a file there"
        case socket.gaierror():
            why = f"{host!r} is no address; 127.0.0.1 is this machine, 0.0.0.0 all its networks"
        case OSError(errno=errno.EADDRINUSE):
            other = "path" if port is None else "port (0: any free one)"
            why = f"another program listens there; stop it, or give another {other}"
        case OSError(errno=errno.EADDRNOTAVAIL):
            why = "the address is not one of this machine's; 127.0.0.1 always is"
        case _:
            why = str(error)
    return f"{where}: {why}"

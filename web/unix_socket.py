"""Unix sockets: removes leftover ones, and detects those in use."""

import errno
import os
import socket
from pathlib import Path

_NOBODY = (errno.ECONNREFUSED, errno.ENOENT)


def make_way(path: Path) -> None:
    """Remove a leftover socket, and create its folder, with access for its owner alone, if there is
    none.

    Raises:
        OSError: a process listens on it or it is another kind of file (both `EADDRINUSE`), or it
            cannot be reached or removed.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0)
        code = probe.connect_ex(str(path))
    if code in (0, errno.EAGAIN, errno.EPROTOTYPE) or (path.exists() and not path.is_socket()):
        code = errno.EADDRINUSE
    if code not in _NOBODY:
        raise OSError(code, os.strerror(code))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)

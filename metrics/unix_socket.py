"""Unix sockets that were left over, and those that somebody listens at."""

import errno
import os
import socket
from pathlib import Path


def make_way(path: Path) -> None:
    """Remove a socket that nobody listens at any more, so that it can be made anew.

    Raises:
        OSError: somebody listens there (`EADDRINUSE`), or it cannot be removed.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0)
        if probe.connect_ex(str(path)) in (0, errno.EAGAIN):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    path.unlink(missing_ok=True)

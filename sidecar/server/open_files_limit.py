"""How many files and connections the process may have open.

Most systems give a process 1,024 at first and far more if it asks, for the sake of old programs
that could not cope. Each client has a connection, and nothing limits those of the data plane: where
they take all there are, the store cannot open its next file.
"""

import resource
from contextlib import suppress


def take_descriptors() -> None:
    """Let this process, and those it starts, have as many as the system lets it."""
    with suppress(OSError, ValueError):  # where system calls are filtered: as many as now
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

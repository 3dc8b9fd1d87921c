"""Raises the limit of open files and connections of the process.

Most systems start a process with a limit of 1,024, for the sake of old programs, and let it raise
the limit far beyond. Each client has a connection, and the data plane does not limit their number:
if they use up all descriptors, the store cannot open its next file.
"""

import resource
from contextlib import suppress


def take_descriptors() -> None:
    """Raise the limit of this process and of its children to the system's maximum."""
    with suppress(OSError, ValueError):  # where system calls are filtered
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

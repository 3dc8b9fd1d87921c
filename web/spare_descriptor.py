"""A spare file descriptor, for use when the process has no other left.

Without it, a connection that cannot be accepted stays in the queue: its client waits, and the
server tries in a busy loop.
"""

import os
import threading
from contextlib import suppress


class SpareDescriptor:
    """One spare descriptor."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number: int | None = None
        self.keep()

    def keep(self) -> None:
        """Open a spare descriptor again, if possible."""
        with self._lock, suppress(OSError):
            if self._number is None:
                self._number = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def let_go(self) -> bool:
        """Release it for the next file that is opened; return whether there was one."""
        with self._lock:
            number, self._number = self._number, None
            if number is not None:
                os.close(number)
            return number is not None

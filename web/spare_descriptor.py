"""A file descriptor that is kept for the moment when the process has no other.

A connection that cannot be accepted stays where it is: its client waits, and the server finds it
there again at once, and again.
"""

import os
import threading
from contextlib import suppress


class SpareDescriptor:
    """One descriptor, kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number: int | None = None
        self.keep()

    def keep(self) -> None:
        """Have one again, if there is one to be had."""
        with self._lock, suppress(OSError):
            if self._number is None:
                self._number = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def let_go(self) -> bool:
        """Let whatever is opened next have it; whether there was one."""
        with self._lock:
            number, self._number = self._number, None
            if number is not None:
                os.close(number)
            return number is not None

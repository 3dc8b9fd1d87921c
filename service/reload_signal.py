"""SIGHUP: the usual request to a daemon to reload its configuration."""

import signal
import threading
from types import FrameType
from typing import Any, Self


class HangUps:
    """Notes SIGHUP while it is entered; does nothing outside of the main thread."""

    def __init__(self) -> None:
        """Start without a signal."""
        self._asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        """Install the handler; without it, the signal ends the process."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGHUP, self._note)
        return self

    def __exit__(self, *_error: object) -> None:
        """Restore the previous handler."""
        if self._before is not None:
            signal.signal(signal.SIGHUP, self._before)

    def take(self) -> bool:
        """Whether the signal came since the last call."""
        asked, self._asked = self._asked, False
        return asked

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True

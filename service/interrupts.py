"""Interrupts: Ctrl-C and SIGTERM, handled between two calls to the JVM.

PySpark's own handler raises in the middle of a call to the JVM, which breaks the connection and
prints stack traces. Here a signal only sets a flag, which the loop that follows the query checks. A
second signal ends the process at once.
"""

import signal
import threading
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Notes signals while it is entered; does nothing outside of the main thread."""

    def __init__(self) -> None:
        """Start without a signal."""
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Install the handlers."""
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._note) for each in _SIGNALS}
        return self

    def __exit__(self, *_error: object) -> None:
        """Restore the previous handlers."""
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal came."""
        if self._asked:
            raise KeyboardInterrupt

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._asked = True
        signal.signal(number, signal.SIG_DFL)

"""SIGHUP: a wish to have the configuration read again, as daemons understand it."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class HangUps:
    """Notes SIGHUP while it is entered; in a thread that is not the main one it does nothing."""

    def __init__(self) -> None:
        """Nothing was asked yet."""
        self._asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        """Take the signal over; until then it ends the process."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGHUP, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give it back."""
        if self._before is not None:
            signal.signal(signal.SIGHUP, self._before)

    def take(self) -> bool:
        """Whether the signal came since the last call."""
        asked, self._asked = self._asked, False
        return asked

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True

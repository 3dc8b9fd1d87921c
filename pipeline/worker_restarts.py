"""Restarts of a query whose Python workers did not start in time."""

from collections.abc import Callable
from typing import Final

from idlestate.pipeline.task_errors import LATE_WORKER, is_late_worker

MOST_RESTARTS: Final = 3
"""In a row, without a finished batch between them."""


class Restarts:
    """Decides whether a query that failed is started again from its checkpoint.

    Args:
        tell: takes a line about each restart.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._in_a_row = 0

    def note_batch(self) -> None:
        """A batch was finished."""
        self._in_a_row = 0

    def allows(self, error: Exception) -> bool:
        """Whether the query is to be started again after this error; exactly-once makes it safe."""
        if not is_late_worker(str(error)) or self._in_a_row == MOST_RESTARTS:
            return False
        self._in_a_row += 1
        again = f"restarting the query from its checkpoint ({self._in_a_row} of {MOST_RESTARTS})"
        self._tell(f"{LATE_WORKER}; {again}")
        return True

"""Restarts of a query whose Python workers did not start in time."""

from collections.abc import Callable
from typing import Final

from idlestate.pipeline.spark.python_worker_errors import LATE_WORKER, is_late_worker

MOST_RESTARTS: Final = 3
"""Restarts in a row, without a finished batch in between."""


class Restarts:
    """Decides whether a failed query is started again from its checkpoint.

    Args:
        tell: prints a line about each restart.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._in_a_row = 0

    def note_batch(self) -> None:
        """Note a finished batch."""
        self._in_a_row = 0

    def allows(self, error: Exception) -> bool:
        """Whether to start the query again after this error, which is safe (exactly-once)."""
        if not is_late_worker(str(error)) or self._in_a_row == MOST_RESTARTS:
            return False
        self._in_a_row += 1
        again = f"restarting the query from its checkpoint ({self._in_a_row} of {MOST_RESTARTS})"
        self._tell(f"{LATE_WORKER}; {again}")
        return True

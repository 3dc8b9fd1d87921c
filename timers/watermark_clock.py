"""Event time as a clock: the newest watermark, for a time to live in event time."""

from idlestate.errors import RefusedError
from idlestate.retention.rules import NEVER_MS
from idlestate.timers.timer import time_from


class WatermarkClock:
    """The watermark; it never goes backwards.

    Attributes:
        refused: how often an older watermark was passed.
    """

    def __init__(self) -> None:
        """Start without a watermark."""
        self._now_ms = NEVER_MS
        self._is_known = False
        self.refused = 0

    def now_ms(self) -> int:
        """The newest watermark; the smallest 64-bit time before the first."""
        return self._now_ms

    def known_ms(self) -> int:
        """The newest watermark. Values stamped before the first would expire with it.

        Raises:
            RefusedError: there is none yet.
        """
        if not self._is_known:
            raise RefusedError(
                "state that expires in event time was used before the backend had a watermark, "
                "which it does not keep over a restart: call backend.watermark.advance(MS) first"
            )
        return self._now_ms

    def advance(self, watermark_ms: int) -> None:
        """Set the watermark; an older one is counted and changes nothing.

        Raises:
            WrongTypeError: it is not a 64-bit integer.
        """
        given_ms = time_from(watermark_ms)
        if given_ms < self._now_ms:
            self.refused += 1
        self._now_ms = max(self._now_ms, given_ms)
        self._is_known = True

"""Event time as a clock: the newest watermark, for a time to live in event time."""

from idlestate.retention.rules import NEVER_MS


class WatermarkClock:
    """The watermark; it never runs back.

    Attributes:
        refused: how often an older watermark was passed.
    """

    def __init__(self) -> None:
        """No watermark yet."""
        self._now_ms = NEVER_MS
        self.refused = 0

    def now_ms(self) -> int:
        """The newest watermark; the smallest 64-bit time before the first."""
        return self._now_ms

    def advance(self, watermark_ms: int) -> None:
        """Set the watermark; an older one is counted and changes nothing."""
        if watermark_ms < self._now_ms:
            self.refused += 1
        self._now_ms = max(self._now_ms, watermark_ms)

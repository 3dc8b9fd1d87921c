"""Caches the text of the last scrape for further scrapes within a second."""

from collections.abc import Callable

from idlestate.timers.clock import Clock

CACHE_S = 1.0
"""How long a scrape is repeated unchanged, in seconds."""


class ScrapeCache:
    """The last text of each format; the caller serializes calls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._written: dict[bool, tuple[float, bytes]] = {}

    def text(self, *, openmetrics: bool, write: Callable[[], bytes]) -> bytes:
        """The text of a format, which is rewritten if the last one is too old."""
        written_s, text = self._written.get(openmetrics, (-CACHE_S, b""))
        now_s = self._clock.monotonic_s()
        if now_s - written_s >= CACHE_S:
            text = write()
            self._written[openmetrics] = now_s, text
        return text

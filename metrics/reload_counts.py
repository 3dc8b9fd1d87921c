"""How often a process has loaded its configuration, and with which result."""

from idlestate.metrics import families
from idlestate.metrics.samples import Samples


class ReloadCounts:
    """Counts loads of the configuration; nothing is counted yet."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(families.RELOAD_RESULTS, 0)
        self._is_good: bool | None = None
        self._good_ms = 0

    def count(self, *, good: bool, now_ms: int) -> None:
        """Count a load, by whether it was applied."""
        self._counts["success" if good else "failure"] += 1
        self._is_good = good
        if good:
            self._good_ms = now_ms

    def samples(self, _now_ms: int) -> Samples:
        """The samples of `families.OF_RELOADS`."""
        return {
            families.CONFIG_RELOADS: {(result,): count for result, count in self._counts.items()},
            families.CONFIG_RELOAD_GOOD: {}
            if self._is_good is None
            else {(): float(self._is_good)},
            families.CONFIG_RELOAD_TIME: {(): self._good_ms / 1000},
        }

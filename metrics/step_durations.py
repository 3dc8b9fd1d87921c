"""How long things took, by operator; counted in this process."""

from threading import Lock

from idlestate.metrics.families import Name
from idlestate.metrics.samples import BucketCounts


class Durations:
    """Histograms of durations; any thread may call it.

    Args:
        names: the histograms.
    """

    def __init__(self, *names: Name) -> None:
        self._names = names
        self._lock = Lock()
        self._counts: dict[str, dict[Name, BucketCounts]] = {}

    def observe(self, name: Name, operator: str, seconds: float) -> None:
        """Count a duration of an operator."""
        with self._lock:
            counts = self.of(operator)
            counts[name] = counts[name].with_value(name, seconds)
            self._counts[operator] = counts

    def of(self, operator: str) -> dict[Name, BucketCounts]:
        """All counted durations of an operator."""
        known = self._counts.get(operator, {})
        return {name: known.get(name) or BucketCounts.none(name) for name in self._names}

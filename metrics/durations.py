"""How long things took, counted in buckets by operator; the counts belong to this process."""

from bisect import bisect_left
from dataclasses import dataclass
from threading import Lock

from idlestate.metrics.names import Name


@dataclass(frozen=True, slots=True)
class BucketCounts:
    """Values counted in the buckets of a `Name`, one more for higher values, and their sum."""

    counts: tuple[int, ...]
    sum: float = 0.0

    @classmethod
    def none(cls, name: Name) -> "BucketCounts":
        """No values."""
        return cls((0,) * (len(name.buckets) + 1))

    def with_value(self, name: Name, value: float) -> "BucketCounts":
        """One value more; a bucket includes its upper bound."""
        counts = list(self.counts)
        counts[bisect_left(name.buckets, value)] += 1
        return BucketCounts(tuple(counts), self.sum + value)


class Durations:
    """Durations of one process; any thread may call it.

    Args:
        names: the histograms.
    """

    def __init__(self, *names: Name) -> None:
        self.names = names
        self._lock = Lock()
        self._counts: dict[tuple[Name, str], BucketCounts] = {}

    def observe(self, name: Name, operator: str, seconds: float) -> None:
        """Count one of an operator."""
        with self._lock:
            before = self._counts.get((name, operator)) or BucketCounts.none(name)
            self._counts[name, operator] = before.with_value(name, seconds)

    def of(self, name: Name, operator: str) -> BucketCounts:
        """All that were counted of an operator."""
        return self._counts.get((name, operator)) or BucketCounts.none(name)

    def forget(self, operator: str) -> None:
        """Drop what was counted of an operator that is gone."""
        with self._lock:
            self._counts = {at: each for at, each in self._counts.items() if at[1] != operator}

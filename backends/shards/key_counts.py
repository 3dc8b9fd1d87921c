"""Counts of created, expired and returning keys."""

from dataclasses import dataclass

from idlestate.retention.age_buckets import AGE_BUCKETS_MS

_NONE = (0,) * (len(AGE_BUCKETS_MS) + 1)


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """Counts of created, expired and returning keys; they add up over batches and shards."""

    created: int = 0
    returning_keys: int = 0
    expired: tuple[int, int, int] = (0, 0, 0)
    """By reason: lifetime, ttl, idle (the order of `Reason`)."""
    absences: tuple[int, ...] = _NONE
    """Returning keys by the time from their expiry to their return (`age_buckets`)."""
    absent_ms: int = 0
    """The sum of the times from expiry to return."""

    def plus(self, other: "KeyCounts") -> "KeyCounts":
        """The sum of both counts."""
        added = tuple(a + b for a, b in zip(self.expired, other.expired, strict=True))
        absences = zip(self.absences, other.absences, strict=True)
        return KeyCounts(
            self.created + other.created,
            self.returning_keys + other.returning_keys,
            (added[0], added[1], added[2]),
            tuple(a + b for a, b in absences),
            self.absent_ms + other.absent_ms,
        )

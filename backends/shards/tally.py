"""What happened to keys, in numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """What happened to keys, in numbers; adds up over batches and shards."""

    created: int = 0
    returning_keys: int = 0
    expired: tuple[int, int, int] = (0, 0, 0)
    """By reason: lifetime, ttl, idle (the order of `Reason`)."""

    def plus(self, other: "Tally") -> "Tally":
        """Both together."""
        added = tuple(a + b for a, b in zip(self.expired, other.expired, strict=True))
        return Tally(
            self.created + other.created,
            self.returning_keys + other.returning_keys,
            (added[0], added[1], added[2]),
        )

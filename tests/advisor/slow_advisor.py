"""What idle windows make of a log, one event at a time: the advisor's slow reference.

It shares no code with the library. Times are int milliseconds.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

Event = tuple[Hashable, int]


@dataclass
class Life:
    created: int
    written: int
    cleanup: int


@dataclass
class SlowRun:
    """A job with an idle window, batch by batch."""

    min_ms: int
    max_ms: int
    delay_ms: int = 0
    open: dict[Hashable, Life] = field(default_factory=dict)
    ended: list[tuple[Hashable, Life]] = field(default_factory=list)
    last_end: dict[Hashable, int] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)
    late: int = 0
    returning: int = 0
    remembered: int = 0
    highest: int | None = None

    def batch(self, events: Sequence[Event]) -> None:
        watermark = None if self.highest is None else max(self.highest - self.delay_ms - 1, 0)
        for key, t in sorted(events, key=lambda event: event[1]):
            self.highest = t if self.highest is None else max(self.highest, t)
            if watermark is not None and t <= watermark:
                self.late += 1
                continue
            self.take(key, t)
        if watermark is not None:
            self.close(watermark)
        self.held.append(len(self.open))

    def take(self, key: Hashable, t: int) -> None:
        life = self.open.get(key)
        if life is not None:
            t = max(t, life.written)
            if life.cleanup <= t:
                self.end(key)
                life = None
        if life is not None:
            life.written = t
            if t + self.min_ms > life.cleanup:
                life.cleanup = t + self.max_ms
            return
        if key in self.last_end:
            self.returning += 1
            self.remembered += t <= self.last_end[key] + self.max_ms
        self.open[key] = Life(t, t, t + self.max_ms)

    def end(self, key: Hashable) -> None:
        life = self.open.pop(key)
        self.ended.append((key, life))
        self.last_end[key] = life.cleanup

    def close(self, until: int) -> None:
        for key in [key for key, life in self.open.items() if life.cleanup <= until]:
            self.end(key)

    def finish(self) -> None:
        assert self.highest is not None
        self.close(self.highest - self.delay_ms - 1)

    @property
    def lives(self) -> list[Life]:
        return [life for _, life in self.ended] + list(self.open.values())

    @property
    def peak(self) -> int:
        return max(self.live_at(life.created) for life in self.lives)

    def live_at(self, t: int) -> int:
        return sum(life.created <= t < life.cleanup for life in self.lives)

    def live_ms(self, until: int) -> int:
        return sum(min(life.cleanup, until) - life.created for life in self.lives)


def slow_run(
    batches: Sequence[Sequence[Event]], min_ms: int, max_ms: int, delay_ms: int = 0
) -> SlowRun:
    """A whole job, with the sweep at its end."""
    run = SlowRun(min_ms, max_ms, delay_ms)
    for batch in batches:
        run.batch(batch)
    run.finish()
    return run

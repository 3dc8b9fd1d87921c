"""What the idle rule makes of whole data sets: one loop over rows in order of time.

It imports nothing of idlestate and is made for millions of rows, so it knows only what the real
data are run with: idle windows, writes, `remember: forever`, and three aggregates
(`AGGREGATES`). `tests/reference.py` is the slow one that knows everything.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Key = tuple[Any, ...]
Life = tuple[Key, int, int, int, int, int, Any]
"""Key, created, written, cleanup (ms), number of rows, sum of amounts, label of the newest row."""

AGGREGATES = {"n": "count", "total": "sum(amount)", "newest": "last(label)"}


@dataclass
class IdleOracle:
    """Lives open and ended; `min_ms` and `max_ms` are the idle windows."""

    min_ms: int
    max_ms: int
    open: dict[Key, list[Any]] = field(default_factory=dict)
    ended: list[Life] = field(default_factory=list)
    seen: set[Key] = field(default_factory=set)
    returning_keys: int = 0
    highest_ms: int = 0

    def take(self, rows: Iterable[tuple[Key, int, int, Any]]) -> None:
        """Rows of (key, time in ms, amount, label), oldest first."""
        lives, least_ms, most_ms = self.open, self.min_ms, self.max_ms
        t_ms = self.highest_ms
        for key, t_ms, amount, label in rows:
            life = lives.get(key)
            if life is not None and life[2] <= t_ms:
                self.ended.append((key, *life))
                life = None
            if life is None:
                self.returning_keys += key in self.seen
                self.seen.add(key)
                lives[key] = [t_ms, t_ms, t_ms + most_ms, 1, amount, label]
                continue
            # Of rows of one time the largest label is the newest.
            if t_ms > life[1] or label > life[5]:
                life[5] = label
            life[1] = t_ms
            if t_ms + least_ms > life[2]:
                life[2] = t_ms + most_ms
            life[3] += 1
            life[4] += amount
        self.highest_ms = t_ms

    def sweep(self, delay_ms: int) -> None:
        """The input has ended: end what is due at its highest time less the delay."""
        until_ms = self.highest_ms - delay_ms - 1
        for key in [key for key, life in self.open.items() if life[2] <= until_ms]:
            self.ended.append((key, *self.open.pop(key)))

    @property
    def lives(self) -> list[Life]:
        """The lives still open."""
        return [(key, *life) for key, life in self.open.items()]

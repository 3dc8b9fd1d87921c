"""A log of events that answers the advisor's questions, in memory or on Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from idlestate.advisor.partial_counts import LifeCounts, LogPart
from idlestate.advisor.window_ladder import Window
from idlestate.retention.rules import Times

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of a log.

    Attributes:
        rows: the number of events.
        keys: the number of distinct keys.
        first_ms: the first event, milliseconds since 1970 in UTC.
        last_ms: the last event.
    """

    rows: int
    keys: int
    first_ms: int
    last_ms: int

    @property
    def span_ms(self) -> int:
        """From the first event to the last."""
        return self.last_ms - self.first_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Other facts about a log.

    Attributes:
        rejected_rows: rows without a usable event time, or without a key if null keys are rejected.
        late_rows: rows that a job with these batches and this delay drops as late.
        key_bytes: bytes of all distinct keys together.
    """

    rejected_rows: int = 0
    late_rows: int = 0
    key_bytes: int = 0


class EventLog(Protocol):
    """Answers questions about the events of a log, or of a range of time in it."""

    @property
    def pieces(self) -> int:
        """The approximate number of times, per window, to pass to `live` at once."""

    @property
    def extent(self) -> Extent:
        """The size of the log."""

    def middle_ms(self) -> int:
        """The time of the median event: at most half of the events are before it."""

    def between(self, from_ms: int, to_ms: int) -> "EventLog":
        """Only the events in [from, to); there must be some."""

    def tallies(self, windows: Sequence[Window], sweep_at_ms: int) -> list[LifeCounts]:
        """As `LogPart.tallies`, up to the end of the log."""

    def live(self, asked: Sequence[tuple[Window, Times]]) -> list[tuple[Ints, Ints]]:
        """As `LogPart.live`."""

    def held(self, windows: Sequence[Window]) -> list[Ints]:
        """How many lives are held after each batch; empty without batches."""

    def close(self) -> None:
        """Release the log's resources; it cannot be used afterwards."""


class MemoryLog:
    """A log in memory."""

    pieces = 1 << 16
    """The finer the first division, the less must be divided again."""

    def __init__(self, part: LogPart, watermarks_ms: Times) -> None:
        """Take all events, and the watermark that applies to each batch (none: no batches)."""
        self._part = part
        self._watermarks_ms = watermarks_ms
        gaps = part.gaps
        first_ms, last_ms = int(gaps.firsts[0]), int(gaps.lasts[-1])
        self._extent = Extent(part.rows, len(gaps.firsts), first_ms, last_ms)

    @property
    def extent(self) -> Extent:
        """The size of the log."""
        return self._extent

    def middle_ms(self) -> int:
        """The time of the event in the middle."""
        return self._part.time_of(self.extent.rows // 2)

    def between(self, from_ms: int, to_ms: int) -> "MemoryLog":
        """Only the events in [from, to), without batches."""
        return MemoryLog(self._part.between(from_ms, to_ms), np.zeros(0, dtype=np.int64))

    def tallies(self, windows: Sequence[Window], sweep_at_ms: int) -> list[LifeCounts]:
        """As `LogPart.tallies`, up to the end of the log."""
        return self._part.tallies(windows, self.extent.last_ms, sweep_at_ms)

    def live(self, asked: Sequence[tuple[Window, Times]]) -> list[tuple[Ints, Ints]]:
        """As `LogPart.live`."""
        return self._part.live(asked)

    def held(self, windows: Sequence[Window]) -> list[Ints]:
        """How many lives are held after each batch; empty without batches."""
        if not len(self._watermarks_ms):
            return [self._watermarks_ms for _ in windows]
        return self._part.held(windows, self._watermarks_ms)

    def close(self) -> None:
        """Do nothing, because there is nothing to release."""

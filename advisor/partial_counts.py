"""Events of whole keys, and the counts that they add to every answer about a log.

A log in memory is one part; on Spark it is many, and their counts are added up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from idlestate.advisor.gaps import Gaps
from idlestate.advisor.sequences import Sequences, WalkedLives
from idlestate.advisor.window_ladder import Window
from idlestate.retention.rules import Times

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LifeCounts:
    """Counts of the lives under one window.

    Attributes:
        created: lives that began.
        expired: lives that ended, including those of the final sweep.
        returning: lives whose key had expired before.
        remembered: returning lives that began while the key's last life was still remembered.
        live_ms: the total duration of all lives.
    """

    created: int = 0
    expired: int = 0
    returning: int = 0
    remembered: int = 0
    live_ms: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Stays:
    """The last events of keys in a batch, and the times between which the pipeline uses them.

    Attributes:
        t_ms: when the event happened.
        batch: the batch of the event.
        until: the batch of the key's next event; the number of batches if there is none.
    """

    t_ms: Times
    batch: Ints
    until: Ints

    def held(self, window_ms: int, watermarks_ms: Times) -> Ints:
        """The number of lives held after each batch, for this window with min = max."""
        swept = np.searchsorted(watermarks_ms, self.t_ms + window_ms)
        batches = len(watermarks_ms)
        begun = np.bincount(self.batch, minlength=batches + 1)
        over = np.bincount(np.minimum(self.until, swept), minlength=batches + 1)
        held: Ints = np.cumsum(begun - over)[:batches]
        return held


class LogPart:
    """Events of whole keys."""

    def __init__(
        self,
        sequences: Sequences,
        gaps: Gaps | None = None,
        stretch: tuple[int, int] | None = None,
    ) -> None:
        """Take events key by key, their gaps if known, and a range of time to which counts are
        limited.
        """
        self._whole = sequences
        self._stretch = stretch
        if gaps is not None:
            self.gaps = gaps
        self._walked: dict[Window, WalkedLives] = {}

    @cached_property
    def sequences(self) -> Sequences:
        """The events key by key."""
        return self._whole if self._stretch is None else self._whole.between(*self._stretch)

    @cached_property
    def gaps(self) -> Gaps:
        """The gaps of the events."""
        t_ms, begins_key = self.sequences.t_ms, self.sequences.begins_key
        follows = np.flatnonzero(~begins_key)
        return Gaps.of(
            t_ms[begins_key], t_ms[_ends_key(begins_key)], t_ms[follows - 1], t_ms[follows]
        )

    @property
    def rows(self) -> int:
        """The number of events."""
        return len(self.gaps.firsts) + len(self.gaps.ends)

    def in_batches(self, batch: Ints) -> "LogPart":
        """The same events, each with the batch it comes in, key by key."""
        return LogPart(replace(self.sequences, batch=batch), self.gaps)

    def rows_until(self, times_ms: Times) -> Ints:
        """The number of events up to and including each of these times."""
        return np.searchsorted(np.sort(self.sequences.t_ms), times_ms, side="right")

    def time_of(self, place: int) -> int:
        """The time of the event at this position in order of time."""
        return int(np.partition(self.sequences.t_ms, place)[place])

    def between(self, from_ms: int, to_ms: int) -> "LogPart":
        """Only the events in [from, to)."""
        return LogPart(self.sequences, self.gaps.between(from_ms, to_ms), (from_ms, to_ms))

    def tallies(self, windows: Sequence[Window], end_ms: int, sweep_at_ms: int) -> list[LifeCounts]:
        """Counts under each window.

        Args:
            windows: the windows.
            end_ms: the end of the log, up to which lives count as live.
            sweep_at_ms: lives due then are ended by the final sweep.
        """
        single = [window for window in windows if window.is_single]
        found = dict(zip(single, self._gap_counts(single, end_ms, sweep_at_ms), strict=True))
        for window in windows:
            if window not in found:
                found[window] = self._walked_counts(window, end_ms, sweep_at_ms)
        return [found[window] for window in windows]

    def live(self, asked: Sequence[tuple[Window, Times]]) -> list[tuple[Ints, Ints]]:
        """The numbers of lives that have begun and ended, for each window.

        Args:
            asked: windows, each with ranges as in `Moments.since`.
        """
        answers: dict[int, tuple[Ints, Ints]] = {}
        narrow = self.gaps
        for at in sorted(range(len(asked)), key=lambda at: asked[at][0].min_ms):
            window, stretches_ms = asked[at]
            gaps = self.gaps
            if window.is_single and len(stretches_ms) == 1:
                # The gaps of a longer window are among those of a shorter one.
                gaps = narrow = narrow.at_least(window.min_ms)
            spans = gaps.spans(window.min_ms) if window.is_single else self._lives(window).spans
            answers[at] = spans.since(stretches_ms)
        return [answers[at] for at in range(len(asked))]

    def held(self, windows: Sequence[Window], watermarks_ms: Times) -> list[Ints]:
        """The number of lives held after each batch, for each window."""
        return [
            self._stays(len(watermarks_ms)).held(window.min_ms, watermarks_ms)
            if window.is_single
            else self.sequences.held(window, watermarks_ms)
            for window in windows
        ]

    def _gap_counts(
        self, windows: Sequence[Window], end_ms: int, sweep_at_ms: int
    ) -> list[LifeCounts]:
        """The counts of windows with min = max."""
        gaps = self.gaps
        windows_ms = np.array([window.min_ms for window in windows], dtype=np.int64)
        swept = np.searchsorted(gaps.lasts, sweep_at_ms - windows_ms, side="right").tolist()
        returns = gaps.returns(windows_ms)
        # By default a job remembers a life for another window.
        forgotten = gaps.returns(2 * windows_ms + 1)
        live_ms = gaps.live_ms(windows_ms, end_ms)
        return [
            LifeCounts(len(gaps.firsts) + back, back + due, back, back - late, live)
            for back, due, late, live in zip(returns, swept, forgotten, live_ms, strict=True)
        ]

    def _walked_counts(self, window: Window, end_ms: int, sweep_at_ms: int) -> LifeCounts:
        lives = self._lives(window)
        return LifeCounts(
            len(lives.created_at_ms),
            lives.ended(sweep_at_ms),
            lives.returns,
            lives.remembered(window.policy.remember_for_ms),
            lives.live_ms(end_ms),
        )

    def _lives(self, window: Window) -> WalkedLives:
        if window not in self._walked:
            self._walked[window] = self.sequences.lives(window)
        return self._walked[window]

    def _stays(self, batches: int) -> Stays:
        t_ms, batch = self.sequences.t_ms, self.sequences.batch
        assert batch is not None
        until = np.append(batch[1:], batches)
        until[_ends_key(self.sequences.begins_key)] = batches
        lasts = until > batch
        return Stays(t_ms[lasts], batch[lasts], until[lasts])


def _ends_key(begins_key: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which events are the last of their key."""
    return np.append(begins_key[1:], True)[: len(begins_key)]

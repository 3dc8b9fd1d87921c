"""Events of whole keys as gaps: from each event to the next one of its key.

With min = max = T, a life ends T after its last event, so a gap of T or more ends a life, and the
event after it begins another. Every figure for such a window follows from the gaps of at least T
and from the first and last event of each key, so the events are sorted only once for all windows.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from idlestate.advisor.spans import Moments, Spans
from idlestate.retention.rules import Times

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Gaps:
    """Gaps in two orders, int64 milliseconds.

    Attributes:
        firsts: when keys had their first event, ascending.
        lasts: when they had their last event, ascending.
        begins: when gaps begin, ascending; `begin_gaps` says how long each is.
        ends: when gaps end, ascending; `end_gaps` says how long each is.
    """

    firsts: Times
    lasts: Times
    begins: Times
    begin_gaps: Times
    ends: Times
    end_gaps: Times

    @classmethod
    def of(cls, firsts: Times, lasts: Times, begins: Times, ends: Times) -> "Gaps":
        """The gaps from unsorted gaps, first events and last events."""
        gaps = ends - begins
        by_begin, by_end = _ascending(begins), _ascending(ends)
        return cls(
            np.sort(firsts),
            np.sort(lasts),
            begins[by_begin],
            gaps[by_begin],
            ends[by_end],
            gaps[by_end],
        )

    @classmethod
    def in_order(cls, t_ms: Times, by_key: Times, begins_key: Flags) -> "Gaps":
        """The gaps of events in order of time, without sorting them again.

        Args:
            t_ms: when each event happened, ascending.
            by_key: their positions, key by key, ascending within each key.
            begins_key: for each of `by_key`, whether it is the first event of its key.
        """
        steps = np.diff(t_ms[by_key])
        has_previous, has_next = np.ones((2, len(t_ms)), dtype=bool)
        has_previous[by_key[begins_key]] = False
        has_next[by_key[np.append(begins_key[1:], True)]] = False
        since, until = np.empty((2, len(t_ms)), dtype=np.int64)
        since[by_key[1:]] = steps
        until[by_key[:-1]] = steps
        return cls(
            t_ms[~has_previous],
            t_ms[~has_next],
            t_ms[has_next],
            until[has_next],
            t_ms[has_previous],
            since[has_previous],
        )

    def between(self, from_ms: int, to_ms: int) -> "Gaps":
        """The gaps of only the events in [from, to)."""
        begin_ends = self.begins + self.begin_gaps
        end_begins = self.ends - self.end_gaps
        by_begin = (self.begins >= from_ms) & (begin_ends < to_ms)
        by_end = (end_begins >= from_ms) & (self.ends < to_ms)
        # The event before or after a cut gap becomes a key's last or first one.
        cut_after = (self.begins >= from_ms) & (self.begins < to_ms) & (begin_ends >= to_ms)
        cut_before = (self.ends >= from_ms) & (self.ends < to_ms) & (end_begins < from_ms)
        return Gaps(
            np.sort(np.concatenate([_within(self.firsts, from_ms, to_ms), self.ends[cut_before]])),
            np.sort(np.concatenate([_within(self.lasts, from_ms, to_ms), self.begins[cut_after]])),
            self.begins[by_begin],
            self.begin_gaps[by_begin],
            self.ends[by_end],
            self.end_gaps[by_end],
        )

    def at_least(self, window_ms: int) -> "Gaps":
        """The gaps that are this long or longer."""
        by_begin, by_end = self.begin_gaps >= window_ms, self.end_gaps >= window_ms
        return Gaps(
            self.firsts,
            self.lasts,
            self.begins[by_begin],
            self.begin_gaps[by_begin],
            self.ends[by_end],
            self.end_gaps[by_end],
        )

    def spans(self, window_ms: int) -> Spans:
        """When lives begin and end."""
        return Spans(
            (Moments(self.firsts), Moments(self.ends, self.end_gaps, window_ms)),
            (Moments(self.lasts), Moments(self.begins, self.begin_gaps, window_ms)),
            window_ms,
        )

    def returns(self, windows_ms: Times) -> list[int]:
        """The number of returns after lives that ended this long after their last event."""
        shorter = np.searchsorted(self._lengths, windows_ms)
        return [len(self._lengths) - each for each in shorter.tolist()]

    def live_ms(self, windows_ms: Times, end_ms: int) -> list[int]:
        """The total duration of all lives, up to `end_ms`."""
        shorter = np.searchsorted(self._lengths, windows_ms)
        whole = np.searchsorted(self.lasts, end_ms - windows_ms)
        within = self._length_sums[shorter].tolist()
        ages = (self._age_sums[-1] - self._age_sums[whole]).tolist()
        # Python integers, because products may need more than 64 bits.
        since_newest = end_ms - int(self.lasts.max(initial=0))
        gaps, keys = len(self._lengths), len(self.lasts)
        return [
            inside + age + (keys - full) * since_newest + window_ms * (gaps - short + full)
            for window_ms, short, full, inside, age in zip(
                *(windows_ms.tolist(), shorter.tolist(), whole.tolist(), within, ages), strict=True
            )
        ]

    @cached_property
    def _lengths(self) -> Times:
        return np.sort(self.begin_gaps)

    @cached_property
    def _length_sums(self) -> Times:
        return np.concatenate([[0], np.cumsum(self._lengths)])

    @cached_property
    def _age_sums(self) -> Times:
        # Relative to the newest time, not to 1970, because sums of times would not fit 64 bits.
        return np.concatenate([[0], np.cumsum(self.lasts.max(initial=0) - self.lasts)])


def _ascending(times: Times) -> npt.NDArray[np.int64] | slice:
    """The index that sorts times; a full slice if they are already sorted."""
    return slice(None) if (times[1:] >= times[:-1]).all() else np.argsort(times)


def _within(times: Times, from_ms: int, to_ms: int) -> Times:
    low, high = np.searchsorted(times, [from_ms, to_ms])
    return times[low:high]

"""Times of many keys in a few bins: small enough to transfer, exact to one bin.

All bins have about the same number of keys, so a count up to any moment is off by less than one
bin, `1 / BINS` of the keys, regardless of the times and of when they were binned. Many keys with
the same time have a separate bin. For up to `BINS` keys, counts are exact.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from idlestate.retention.ramps import Floats, Ints, Ramps
from idlestate.retention.rules import Times

BINS: Final = 32


@dataclass(frozen=True, slots=True)
class TimeBins:
    """How many keys have a time after the previous bin's `upto_ms` and up to their bin's own.

    The first bin has only the keys of the moment `upto_ms[0]`.
    """

    upto_ms: Sequence[int] = ()
    keys: Sequence[int] = ()

    @classmethod
    def of(cls, times_ms: Times, keys: int) -> "TimeBins":
        """The bins of times, int64 milliseconds.

        Args:
            times_ms: the times, in any order.
            keys: the number of keys that they represent; more than the times if these are a sample.
        """
        if not len(times_ms):
            return cls()
        ordered = np.sort(times_ms)
        chosen = np.unique(ordered[np.linspace(0, len(ordered) - 1, BINS + 1).astype(np.int64)])
        below = np.searchsorted(ordered, chosen)
        upto = np.searchsorted(ordered, chosen, side="right")
        # A time that many keys share is separate from the times before it.
        apart = np.flatnonzero((upto - below)[1:] > 1) + 1
        apart = apart[chosen[apart] - 1 > chosen[apart - 1]]
        edges = np.insert(chosen, apart, chosen[apart] - 1)
        counts = np.insert(upto, apart, below[apart])
        scaled = np.rint(counts * (keys / len(ordered))).astype(np.int64)
        return cls(edges.tolist(), np.diff(scaled, prepend=0).tolist())


class KeyTimes:
    """The combined bins of several shards, for counts at any moment.

    Attributes:
        keys: the number of keys.
    """

    def __init__(self, shards: Iterable[TimeBins] = ()) -> None:
        """Combine the bins."""
        some = [each for each in shards if each.keys]
        self._upto_ms = np.array([ms for each in some for ms in each.upto_ms], dtype=np.int64)
        self._keys = np.array([keys for each in some for keys in each.keys], dtype=np.int64)
        starts = np.cumsum([0, *(len(each.keys) for each in some)])[:-1]
        self._after_ms = np.roll(self._upto_ms, 1)
        self._after_ms[starts] = self._upto_ms[starts] - 1
        self.keys = int(self._keys.sum())

    def __eq__(self, other: object) -> bool:
        """Whether the same keys have the same times."""
        return (
            isinstance(other, KeyTimes)
            and np.array_equal(self._upto_ms, other._upto_ms)
            and np.array_equal(self._after_ms, other._after_ms)
            and np.array_equal(self._keys, other._keys)
        )

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def counted(self) -> Ramps:
        """The keys up to a moment: the last key of a bin is where the bin ends, the others are
        anywhere before.
        """
        slopes = np.maximum(self._keys - 1, 0) / (self._upto_ms - self._after_ms)
        slopes[self._upto_ms - self._after_ms == 1] = 0.0  # no moment is within these bins
        ramped = slopes * (self._upto_ms - self._after_ms)
        return Ramps(
            np.concatenate([self._after_ms, self._upto_ms]),
            np.concatenate([np.zeros(len(ramped)), self._keys - ramped]),
            np.concatenate([slopes, -slopes]),
        )

    @cached_property
    def aged(self) -> Ramps:
        """The total age of all keys; a key of a bin counts at the middle of the bin."""
        middle = (self._after_ms + 1) / 2 + self._upto_ms / 2
        return Ramps(middle, np.zeros(len(middle)), self._keys.astype(np.float64))

    def count(self, moments_ms: Sequence[int]) -> Ints:
        """For each moment, the number of keys with a time at or before it."""
        found: Ints = self.counts([self], np.array([moments_ms], dtype=np.int64))[0]
        return found

    @staticmethod
    def counts(many: Sequence["KeyTimes"], moments_ms: Ints) -> Ints:
        """The counts of many objects, each at its own moments: shape (many, moments)."""
        values = Ramps.values([each.counted for each in many], moments_ms)
        return np.rint(values).astype(np.int64)

    @staticmethod
    def sums_of_ages_ms(many: Sequence["KeyTimes"], now_ms: Ints) -> Floats:
        """The total age of the keys of each of many objects.

        Args:
            many: the times.
            now_ms: int64, shape (many,); later times have no age.
        """
        found: Floats = Ramps.values([each.aged for each in many], now_ms[:, None])[:, 0]
        return found

"""Times of many keys in a few bins: small enough to travel, exact to one bin.

A bin has about the same number of keys as every other, so a count up to any moment is off by less
than one bin, `1 / BINS` of the keys, whatever the times are and however long ago they were binned.
Many keys of one and the same time have a bin of their own. So are up to `BINS` keys: their counts
are exact.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from idlestate.retention.rules import Times

BINS: Final = 32


@dataclass(frozen=True, slots=True)
class TimeBins:
    """How many keys have a time after the previous bin's `upto_ms` and up to their bin's own.

    The first bin has the keys of the one moment `upto_ms[0]`.
    """

    upto_ms: Sequence[int] = ()
    keys: Sequence[int] = ()

    @classmethod
    def of(cls, times_ms: Times, keys: int) -> "TimeBins":
        """The bins of times, int64 milliseconds.

        Args:
            times_ms: the times, in any order.
            keys: for how many keys they stand; more than there are times if these are a sample.
        """
        if not len(times_ms):
            return cls()
        ordered = np.sort(times_ms)
        chosen = np.unique(ordered[np.linspace(0, len(ordered) - 1, BINS + 1).astype(np.int64)])
        below = np.searchsorted(ordered, chosen)
        upto = np.searchsorted(ordered, chosen, side="right")
        # What many keys share stands apart from what comes before it.
        apart = np.flatnonzero((upto - below)[1:] > 1) + 1
        apart = apart[chosen[apart] - 1 > chosen[apart - 1]]
        edges = np.insert(chosen, apart, chosen[apart] - 1)
        counts = np.insert(upto, apart, below[apart])
        scaled = np.rint(counts * (keys / len(ordered))).astype(np.int64)
        return cls(edges.tolist(), np.diff(scaled, prepend=0).tolist())


class KeyTimes:
    """The bins of several shards together, to be counted at any moment."""

    def __init__(self, shards: Iterable[TimeBins] = ()) -> None:
        """Put them side by side."""
        some = [each for each in shards if each.keys]
        self._upto_ms = np.array([ms for each in some for ms in each.upto_ms], dtype=np.int64)
        self._keys = np.array([keys for each in some for keys in each.keys], dtype=np.int64)
        starts = np.cumsum([0, *(len(each.keys) for each in some)])[:-1]
        self._after_ms = np.roll(self._upto_ms, 1)
        self._after_ms[starts] = self._upto_ms[starts] - 1

    def __eq__(self, other: object) -> bool:
        """Whether the same keys have the same times."""
        return (
            isinstance(other, KeyTimes)
            and np.array_equal(self._upto_ms, other._upto_ms)
            and np.array_equal(self._after_ms, other._after_ms)
            and np.array_equal(self._keys, other._keys)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return int(self._keys.sum())

    def sum_of_ages_ms(self, now_ms: int) -> float:
        """The time since each key's own, together; a key of a bin is taken for its middle."""
        middle = self._after_ms / 2 + self._upto_ms / 2
        return float(np.maximum(now_ms - middle, 0) @ self._keys)

    def count(self, moments_ms: Sequence[int]) -> npt.NDArray[np.int64]:
        """For each moment, how many keys have a time at or before it."""
        moments = np.array(moments_ms, dtype=np.int64)[:, None]
        widths_ms = self._upto_ms - self._after_ms
        passed = np.clip((moments - self._after_ms) / widths_ms, 0, 1)
        # The last key of a bin is where the bin ends, the others are anywhere before.
        found = np.where(passed < 1, passed * np.maximum(self._keys - 1, 0), self._keys).sum(axis=1)
        counts: npt.NDArray[np.int64] = np.rint(found).astype(np.int64)
        return counts

"""Matches of a join: pairs of rows with the same key whose times are close enough.

For each row, the rows that match it are neighbours among the other input's rows in order of key and
time. So matches are found as ranges and expanded to pairs in portions: even the pairs of a hot key
are never all in memory at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.fields import Field

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class JoinRows:
    """Rows of one input: rows in state first, then rows of the batch."""

    key: Ints
    """The number of each row's key."""
    t_ms: Ints
    columns: list[Field]
    stored: int
    """The number of rows in state."""

    def __len__(self) -> int:
        return len(self.key)

    @property
    def old(self) -> Ints:
        """Positions of the rows in state."""
        return np.arange(self.stored)

    @property
    def new(self) -> Ints:
        """Positions of the rows of the batch."""
        return np.arange(self.stored, len(self))


@dataclass(frozen=True, slots=True)
class Matches:
    """Some rows, and for each of them a range of rows of the other input."""

    rows: Ints
    """Positions of the rows."""
    others: Ints
    """Positions of rows of the other input, in order of key and time."""
    begins: Ints
    counts: Ints

    @staticmethod
    def joined(parts: Sequence["Matches"]) -> "Matches":
        """The same ranges as one `Matches`, so that pairs of few rows each are made together."""
        starts = np.cumsum([0, *(len(part.others) for part in parts)])
        return Matches(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.others for part in parts]),
            np.concatenate(
                [part.begins + start for part, start in zip(parts, starts, strict=False)]
            ),
            np.concatenate([part.counts for part in parts]),
        )

    def pairs(self, most: int) -> Iterator[tuple[Ints, Ints]]:
        """The positions of both rows of each pair, in portions of at most this many pairs."""
        stops = np.cumsum(self.counts)
        total = int(stops[-1]) if len(stops) else 0
        for first in range(0, total, most):
            pair = np.arange(first, min(first + most, total))
            at = np.searchsorted(stops, pair, side="right")
            place = self.begins[at] + pair - (stops[at] - self.counts[at])
            yield self.rows[at], self.others[place]


def matches(rows: JoinRows, others: JoinRows, low_ms: int, high_ms: int) -> tuple[Matches, Matches]:
    """The matches of the batch's rows, and the batch's rows that match rows in state.

    Args:
        rows, others: the rows of either input.
        low_ms, high_ms: the least and the greatest time from a row to one that matches it.
    """
    every = np.arange(len(others))
    return (
        _matches(rows, rows.new, others, every, low_ms, high_ms),
        _matches(rows, rows.old, others, others.new, low_ms, high_ms),
    )


def are_matched(found: tuple[Matches, Matches], rows: JoinRows) -> Flags:
    """Whether each row has a match among these."""
    flags = np.zeros(len(rows), dtype=bool)
    for each in found:
        flags[each.rows[each.counts > 0]] = True
    return flags


def distinct(values: Ints) -> Ints:
    """The values in ascending order, each once; several times as fast as numpy's `unique`."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    found: Ints = ordered[is_first]
    return found


def _matches(
    rows: JoinRows, at: Ints, others: JoinRows, among: Ints, low_ms: int, high_ms: int
) -> Matches:
    if not len(at) or not len(among):
        return Matches(at, among, np.zeros(len(at), np.int64), np.zeros(len(at), np.int64))
    last_key = max(int(rows.key[at].max()), int(others.key[among].max()))
    numbers = _TimeNumbers.of(others.t_ms[among], last_key + 1)
    codes = others.key[among] * numbers.width + numbers.not_before(others.t_ms[among])
    if not (codes[1:] >= codes[:-1]).all():
        order = np.argsort(codes, kind="stable")
        among, codes = among[order], codes[order]
    key, t_ms = rows.key[at] * numbers.width, rows.t_ms[at]
    begins = np.searchsorted(codes, key + numbers.not_before(t_ms + low_ms))
    stops = np.searchsorted(codes, key + numbers.after(t_ms + high_ms))
    return Matches(at, among, begins, np.maximum(stops - begins, 0))


@dataclass(frozen=True, slots=True)
class _TimeNumbers:
    """Maps times to numbers below `width` in the same order, so that key and time fit into one
    number.
    """

    times_ms: Ints
    """Distinct times in ascending order; only the first and last, if the numbers are milliseconds.
    """
    width: int
    are_ms: bool

    @classmethod
    def of(cls, times_ms: Ints, keys: int) -> "_TimeNumbers":
        """Milliseconds since the first time or, if these do not fit 63 bits together with the key
        numbers, the ranks of the times.
        """
        first, last = int(times_ms.min()), int(times_ms.max())
        width = last - first + 2
        if (keys + 1) * width < 1 << 63:
            return cls(np.array([first, last]), width, are_ms=True)
        ranked = distinct(times_ms)
        return cls(ranked, len(ranked) + 1, are_ms=False)

    def not_before(self, times_ms: Ints) -> Ints:
        """The lowest number of a time that is not before each of these."""
        if not self.are_ms:
            return np.searchsorted(self.times_ms, times_ms)
        numbers: Ints = np.clip(times_ms - self.times_ms[0], 0, self.width - 1)
        return numbers

    def after(self, times_ms: Ints) -> Ints:
        """The lowest number of a time that is after each of these."""
        return self.not_before(times_ms + 1)

"""Rows that match: pairs of rows with the same key whose times are near enough.

For each row, the rows that match it are neighbours among the other input's rows in order of key and
time. So matches are found as ranges, and pairs are made from them a portion at a time: those of a
hot key, however many they are, are never in memory together.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.fields import Field

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class JoinRows:
    """Rows of one input: those in state first, then those of the batch."""

    key: Ints
    """Of each row the number of its key."""
    t_ms: Ints
    columns: list[Field]
    stored: int
    """How many are in state."""

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

    def pairs(self, most: int) -> Iterator[tuple[Ints, Ints]]:
        """The positions of both rows of each pair, at most so many pairs at a time."""
        stops = np.cumsum(self.counts)
        total = int(stops[-1]) if len(stops) else 0
        for first in range(0, total, most):
            pair = np.arange(first, min(first + most, total))
            at = np.searchsorted(stops, pair, side="right")
            place = self.begins[at] + pair - (stops[at] - self.counts[at])
            yield self.rows[at], self.others[place]


def matches(rows: JoinRows, others: JoinRows, low_ms: int, high_ms: int) -> tuple[Matches, Matches]:
    """What matches rows of the batch, and which rows of the batch match those in state.

    Args:
        rows, others: of one input and of the other.
        low_ms, high_ms: the least and the greatest time from a row to one that matches it.
    """
    every = np.arange(len(others))
    return (
        _matches(rows, rows.new, others, every, low_ms, high_ms),
        _matches(rows, rows.old, others, others.new, low_ms, high_ms),
    )


def are_matched(found: tuple[Matches, Matches], rows: JoinRows) -> Flags:
    """Which of the rows have a match among these."""
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
    among = among[np.lexsort((others.t_ms[among], others.key[among]))]
    times_ms = distinct(others.t_ms[among])
    width = len(times_ms) + 1
    codes = others.key[among] * width + np.searchsorted(times_ms, others.t_ms[among])
    key, t_ms = rows.key[at] * width, rows.t_ms[at]
    first = key + np.searchsorted(times_ms, t_ms + low_ms, side="left")
    stop = key + np.searchsorted(times_ms, t_ms + high_ms, side="right")
    begins = np.searchsorted(codes, first)
    return Matches(at, among, begins, np.maximum(np.searchsorted(codes, stop) - begins, 0))

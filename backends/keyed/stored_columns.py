"""Stored values with their timestamps as columns, by number."""

from typing import Any

import numpy as np

from idlestate.backends.keyed.byte_index import ABSENT, grown
from idlestate.backends.keyed.cells import Cells, Column, Stored, dtype_of
from idlestate.backends.keyed.copied import Copied
from idlestate.backends.keyed.key_batch import Flags, Positions
from idlestate.backends.keyed.rows import ValueLayout


class StoredColumns(Copied):
    """Values, whether there is one, and timestamps.

    Attributes:
        stamps: the timestamp of each number, anything in a state without.
    """

    def __init__(self, layout: ValueLayout) -> None:
        """Nothing."""
        self._stamped = layout.stamped
        self._dtype = dtype_of(layout.value.kind)
        self._values: Column = np.empty(0, dtype=self._dtype)
        self._has = np.empty(0, dtype=np.bool_)
        self.stamps = np.empty(0, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """Memory besides what values of no fixed width are."""
        return self._values.nbytes + self._has.nbytes + self.stamps.nbytes

    def one(self, number: int) -> Stored:
        """What one number holds."""
        value = self._values[number] if self._has[number] else None
        if value is not None and not self._dtype.hasobject:
            value = value.item()
        return (value, int(self.stamps[number])) if self._stamped else value

    def at(self, numbers: Positions, there: Flags | None = None) -> Cells:
        """What these numbers hold; those that are not there, as `ABSENT`, hold nothing."""
        if there is None:
            there = numbers != ABSENT
        if not len(self._values):
            nothing = np.zeros(len(numbers), dtype=np.bool_)
            stamps = np.zeros(len(numbers), dtype=np.int64) if self._stamped else None
            return Cells(np.zeros(len(numbers), dtype=self._dtype), nothing, nothing, stamps)
        stamps = self.stamps[numbers] if self._stamped else None
        return Cells(self._values[numbers], self._has[numbers] & there, there, stamps)

    def set(self, numbers: Positions, values: Column, has: Flags, stamps: Any) -> None:
        """Have these numbers hold values; of a number that comes twice the last counts.

        Args:
            numbers: which ones; the columns grow to hold them.
            values: the values.
            has: where there is a value.
            stamps: the timestamps, or one for all; anything in a state without.
        """
        count = int(numbers.max(initial=-1)) + 1
        self._values, self._has = grown(self._values, count), grown(self._has, count)
        self._values[numbers] = values
        self._has[numbers] = has
        if self._stamped:
            self.stamps = grown(self.stamps, count)
            self.stamps[numbers] = stamps

    def lacking(self, numbers: Positions) -> Flags:
        """Which of these numbers hold an entry without a value."""
        return ~self._has[numbers]

    def let_go(self, numbers: Positions) -> None:
        """Hold no objects for these numbers any more."""
        if self._dtype.hasobject:
            self._values[numbers] = None

    def keep(self, numbers: Positions) -> None:
        """Hold what these numbers held, numbered from 0."""
        self._values, self._has = self._values[numbers], self._has[numbers]
        if self._stamped:
            self.stamps = self.stamps[numbers]

    def part(self) -> None:
        """Have for itself what changes."""
        self._values, self._has = self._values.copy(), self._has.copy()
        self.stamps = self.stamps.copy()

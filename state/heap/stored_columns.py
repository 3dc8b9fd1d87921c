"""Stored values with their timestamps as columns, by number."""

from typing import Any, Final

import numpy as np

from idlestate.backends.runs.byte_arrays import Flags, Positions
from idlestate.backends.runs.byte_index import ABSENT, grown
from idlestate.state.batch_values import Cells, Column, Stored, dtype_of
from idlestate.state.heap.held_columns import HeldColumns
from idlestate.state.rows import ValueLayout

NOTHING: Final = 0
NO_VALUE: Final = 1
VALUE: Final = 2
"""What a number holds: neither value nor timestamp, no value, or a value."""


class StoredColumns:
    """Values, whether there is one, and timestamps.

    Attributes:
        stamps: the timestamp of each number, anything in a state without.
    """

    def __init__(self, layout: ValueLayout) -> None:
        """Nothing."""
        self._stamped = layout.stamped
        self._dtype = dtype_of(layout.value.kind)
        self._values: Column = np.empty(0, dtype=self._dtype)
        self._marks = np.empty(0, dtype=np.uint8)
        self.stamps = np.empty(0, dtype=np.int64)
        self._held: list[HeldColumns] = []

    @classmethod
    def of(cls, layout: ValueLayout, held: HeldColumns) -> "StoredColumns":
        """What is held, which is released."""
        found = cls(layout)
        found._values, found._marks, found.stamps = held.take()
        return found

    def hold(self) -> HeldColumns:
        """The columns as they are now."""
        held = HeldColumns((self._values, self._marks, self.stamps), len(self._marks))
        self._held.append(held)
        return held

    def _before_write(self, numbers: Positions) -> None:
        if self._held:
            self._held = [held for held in self._held if not held.released]
            for held in self._held:
                held.save(numbers)

    @property
    def nbytes(self) -> int:
        """Memory besides what values of no fixed width are."""
        return self._values.nbytes + self._marks.nbytes + self.stamps.nbytes

    def one(self, number: int) -> Stored:
        """What one number holds."""
        mark = self._marks[number]
        if mark == NOTHING:
            return None
        value = self._values[number] if mark == VALUE else None
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
        marks = np.where(there, self._marks[numbers], NOTHING)
        return Cells(self._values[numbers], marks == VALUE, marks != NOTHING, stamps)

    def set(
        self,
        numbers: Positions,
        values: Column,
        has: Flags,
        stamps: Any,
        there: Flags | None = None,
    ) -> None:
        """Have these numbers hold values; of a number that comes twice the last counts.

        Args:
            numbers: which ones; the columns grow to hold them.
            values: the values.
            has: where there is a value.
            stamps: the timestamps, or one for all; anything in a state without.
            there: where there is anything, a value or a timestamp; None for everywhere.
        """
        self._before_write(numbers)
        count = int(numbers.max(initial=-1)) + 1
        self._values, self._marks = grown(self._values, count), grown(self._marks, count)
        self._values[numbers] = values
        marks = np.where(has, np.uint8(VALUE), np.uint8(NO_VALUE))
        self._marks[numbers] = marks if there is None else np.where(there, marks, NOTHING)
        if self._stamped:
            self.stamps = grown(self.stamps, count)
            self.stamps[numbers] = stamps

    def restamp(self, numbers: Positions, stamp_ms: int) -> None:
        """Give these numbers a new timestamp."""
        self._before_write(numbers)
        self.stamps[numbers] = stamp_ms

    def lacking(self, numbers: Positions) -> Flags:
        """Which of these numbers hold an entry without a value."""
        found: Flags = self._marks[numbers] != VALUE
        return found

    def stamped(self, numbers: Positions) -> Positions:
        """Those of these numbers that hold a timestamp."""
        found: Positions = numbers[self._marks[numbers] != NOTHING]
        return found

    def let_go(self, numbers: Positions) -> None:
        """Hold no objects for these numbers any more."""
        if self._dtype.hasobject:
            self._before_write(numbers)
            self._values[numbers] = None

    def keep(self, numbers: Positions) -> None:
        """Hold what these numbers held, numbered from 0, in columns that nobody else holds."""
        self._held = []
        self._values, self._marks = self._values[numbers], self._marks[numbers]
        if self._stamped:
            self.stamps = self.stamps[numbers]

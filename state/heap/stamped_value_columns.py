"""Stored values with their timestamps as columns, by number."""

from typing import Any, Final

import numpy as np

from idlestate.backends.runs.byte_arrays import Flags, Positions
from idlestate.backends.runs.byte_index import ABSENT, grown
from idlestate.state.batch_values import Cells, Column, Stored, dtype_of
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.heap.copy_on_write_columns import HeldColumns

NOTHING: Final = 0
NO_VALUE: Final = 1
VALUE: Final = 2
"""The content of a number: neither value nor timestamp, no value, or a value."""


class StoredColumns:
    """Values, flags for existing ones, and timestamps.

    Attributes:
        stamps: the timestamp of each number; undefined in a state without timestamps.
    """

    def __init__(self, layout: ValueLayout) -> None:
        """Start empty."""
        self._stamped = layout.stamped
        self._dtype = dtype_of(layout.value.kind)
        self._values: Column = np.empty(0, dtype=self._dtype)
        self._marks = np.empty(0, dtype=np.uint8)
        self.stamps = np.empty(0, dtype=np.int64)
        self._held: list[HeldColumns] = []

    @classmethod
    def of(cls, layout: ValueLayout, held: HeldColumns) -> "StoredColumns":
        """The held columns; releases them."""
        found = cls(layout)
        found._values, found._marks, found.stamps = held.take()
        return found

    def hold(self) -> HeldColumns:
        """The current columns, held for a snapshot."""
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
        """The bytes, without those of values of variable width."""
        return self._values.nbytes + self._marks.nbytes + self.stamps.nbytes

    def one(self, number: int) -> Stored:
        """The content of one number."""
        mark = self._marks[number]
        if mark == NOTHING:
            return None
        value = self._values[number] if mark == VALUE else None
        if value is not None and not self._dtype.hasobject:
            value = value.item()
        return (value, int(self.stamps[number])) if self._stamped else value

    def at(self, numbers: Positions, there: Flags | None = None) -> Cells:
        """The content of these numbers; missing ones, such as `ABSENT`, have none."""
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
        """Store values for these numbers; of several values for a number, the last one counts.

        Args:
            numbers: the numbers; the columns grow if needed.
            values: the values.
            has: whether there is a value.
            stamps: the timestamps, or one for all; ignored in a state without timestamps.
            there: whether there is a value or a timestamp; None: for all.
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
        """Set a new timestamp for these numbers."""
        self._before_write(numbers)
        self.stamps[numbers] = stamp_ms

    def lacking(self, numbers: Positions) -> Flags:
        """Whether each of these numbers has an entry without a value."""
        found: Flags = self._marks[numbers] != VALUE
        return found

    def stamped(self, numbers: Positions) -> Positions:
        """The numbers among these with a timestamp."""
        found: Positions = numbers[self._marks[numbers] != NOTHING]
        return found

    def let_go(self, numbers: Positions) -> None:
        """Release the objects of these numbers."""
        if self._dtype.hasobject:
            self._before_write(numbers)
            self._values[numbers] = None

    def keep(self, numbers: Positions) -> None:
        """Keep only the content of these numbers, renumbered from 0, in new columns."""
        self._held = []
        self._values, self._marks = self._values[numbers], self._marks[numbers]
        if self._stamped:
            self.stamps = self.stamps[numbers]

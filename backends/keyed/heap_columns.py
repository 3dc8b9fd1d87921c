"""One value per key on heap, as columns: no object for any of them.

Numbers that `ByteIndex` gives to keys are positions in the columns of values and timestamps.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.keyed.byte_index import ABSENT, ByteIndex, distinct, grown
from idlestate.backends.keyed.cells import Cells, Column, Stored, dtype_of
from idlestate.backends.keyed.heap_spaces import Spaces
from idlestate.backends.keyed.key_batch import Flags, KeyBatch, Positions
from idlestate.backends.keyed.rows import ValueLayout
from idlestate.backends.keyed.usage import Usage

SPARE = 1024
"""Removed keys that are not worth new columns."""


class HeapColumns:
    """Keys, values and timestamps.

    Attributes:
        index: numbers the keys.
        spaces: numbers the namespaces.
        made: how often they were numbered anew.
    """

    def __init__(self, layout: ValueLayout) -> None:
        """No keys."""
        self.index = ByteIndex()
        self._layout = layout
        self._dtype = dtype_of(layout.value.kind)
        self._values: Column = np.empty(0, dtype=self._dtype)
        self._has = np.empty(0, dtype=np.bool_)
        self._stamps = np.empty(0, dtype=np.int64)
        self.spaces = Spaces()
        self.made = 0

    def usage(self) -> Usage:
        """How much room the columns take."""
        columns = self._values.nbytes + self._has.nbytes + self._stamps.nbytes
        return self.index.usage() + Usage(columns, self.index.dead_share(columns))

    def get(self, data: bytes, namespace: Any) -> Stored:
        """What one key has, None when nothing is stored."""
        number = self.index.find_one(data, self.spaces.find(namespace))
        return None if number == ABSENT else self._stored(number)

    def _stored(self, number: int) -> Stored:
        value = self._values[number] if self._has[number] else None
        if value is not None and not self._dtype.hasobject:
            value = value.item()
        return (value, int(self._stamps[number])) if self._layout.stamped else value

    def has(self, data: bytes, namespace: Any) -> bool:
        """Whether a key is there."""
        return self.index.find_one(data, self.spaces.find(namespace)) != ABSENT

    def find(self, keys: KeyBatch, namespace: Any) -> Positions:
        """The number of each key, `ABSENT` where it is not there."""
        return self.index.find(keys.encoded, self.spaces.find(namespace))

    def fetch(self, keys: KeyBatch, namespace: Any) -> Cells:
        """What each key has."""
        if not self.index.count:
            nothing = np.zeros(len(keys), dtype=np.bool_)
            stamps = np.zeros(len(keys), dtype=np.int64) if self._layout.stamped else None
            return Cells(np.zeros(len(keys), dtype=self._dtype), nothing, nothing, stamps)
        return self.at(self.find(keys, namespace))

    def at(self, numbers: Positions) -> Cells:
        """What these numbers have; `ABSENT` has nothing."""
        there = numbers != ABSENT
        return Cells(
            self._values[numbers],
            self._has[numbers] & there,
            there,
            self._stamps[numbers] if self._layout.stamped else None,
        )

    def store(
        self, keys: KeyBatch, namespace: Any, values: Column, has: Flags, stamps: Any
    ) -> Positions:
        """Store a value or an entry without one for each key, the last of a key's; their numbers.

        Args:
            keys: whose.
            namespace: in which namespace.
            values: the values.
            has: where there is a value.
            stamps: the timestamps, or one for all; anything in a state without.
        """
        numbers, _ = self.index.add(keys.encoded, self.spaces.number(namespace))
        self._values = grown(self._values, self.index.count)
        self._has = grown(self._has, self.index.count)
        self._values[numbers] = values
        self._has[numbers] = has
        if self._layout.stamped:
            self._stamps = grown(self._stamps, self.index.count)
            self._stamps[numbers] = stamps
        return numbers

    def put(self, keys: KeyBatch, namespace: Any, values: Column, has: Flags, stamps: Any) -> None:
        """Store a value for each key, or remove the key where there is none."""
        numbers = self.store(keys, namespace, values, has, stamps)
        if not has.all():
            self.remove(distinct(numbers[~self._has[numbers]]))

    def restamp(self, keys: KeyBatch, namespace: Any, stamp_ms: int) -> None:
        """Give keys, all of which are there, a new timestamp."""
        self._stamps[self.find(keys, namespace)] = stamp_ms

    @property
    def stamps(self) -> Positions:
        """The timestamp of each number."""
        return self._stamps[: self.index.count]

    def remove(self, numbers: Positions) -> None:
        """Remove these keys, each given once; numbers may be others afterwards."""
        self.take_out(numbers)
        self.compact_if_sparse()

    def take_out(self, numbers: Positions) -> None:
        """Remove these keys, each given once; the others keep their numbers."""
        self.index.remove(numbers)
        if self._dtype.hasobject:
            self._values[numbers] = None

    def compact_if_sparse(self) -> None:
        """Make the columns anew when most keys are gone."""
        if self.index.count > 2 * self.index.live + SPARE:
            self.compact()

    def clear(self, keys: KeyBatch, namespace: Any) -> None:
        """Remove keys, there or not."""
        numbers = self.find(keys, namespace)
        self.remove(distinct(numbers[numbers != ABSENT]))

    def compact(self) -> None:
        """Make the columns anew, as long as there are keys, and forget unused namespaces."""
        self.made += 1
        kept = self.index.compact()
        self._values, self._has = self._values[kept], self._has[kept]
        if self._layout.stamped:
            self._stamps = self._stamps[kept]
        self.spaces.keep(np.unique(self.index.spaces).tolist())

    def copy(self) -> "HeapColumns":
        """The columns as they are now, for reading."""
        other = HeapColumns(self._layout)
        other.index = self.index.copy()
        count = self.index.count
        other._values, other._has = self._values[:count].copy(), self._has[:count].copy()
        other._stamps = self._stamps[:count].copy()
        other.spaces = self.spaces.copy()
        return other

    def in_namespace(self, namespace: Any) -> Positions:
        """The numbers of the keys of a namespace."""
        return np.flatnonzero(self.index.alive & (self.index.spaces == self.spaces.find(namespace)))

    def keys(self, numbers: Positions) -> pa.BinaryArray:
        """The bytes of these keys."""
        return self.index.keys.take(pa.array(numbers)).cast(pa.binary())

"""One value per key on heap, as columns: no object per key or value.

The keys' numbers in `ByteIndex` are positions in the columns of values and timestamps.
"""

from typing import Any

from idlestate.backends.runs.byte_arrays import Flags, Positions
from idlestate.backends.runs.byte_index import ABSENT, distinct
from idlestate.state.batch_values import Cells, Column, Stored
from idlestate.state.heap.heap_keys import SPARE, HeapKeys
from idlestate.state.key_batch import KeyBatch
from idlestate.state.usage import Usage


class HeapColumns(HeapKeys):
    """Keys, values and timestamps."""

    def usage(self) -> Usage:
        """The bytes of the columns."""
        total = self.index.total_bytes + self._stored.nbytes
        return Usage(total, self.index.dead_share(total))

    def get(self, data: bytes, namespace: Any) -> Stored:
        """The stored value of one key; None if there is none."""
        number = self.index.find_one(data, self.spaces.find(namespace))
        return None if number == ABSENT else self._stored.one(number)

    def has(self, data: bytes, namespace: Any) -> bool:
        """Whether a key exists."""
        return self.index.find_one(data, self.spaces.find(namespace)) != ABSENT

    def find(self, keys: KeyBatch, namespace: Any) -> Positions:
        """The number of each key; `ABSENT` if it does not exist."""
        return self.index.find(keys.encoded, self.spaces.find(namespace))

    def fetch(self, keys: KeyBatch, namespace: Any) -> Cells:
        """The stored values of keys."""
        return self.at(self.find(keys, namespace))

    def at(self, numbers: Positions) -> Cells:
        """The stored values of these numbers; `ABSENT` has none."""
        return self._stored.at(numbers)

    def store(
        self,
        keys: KeyBatch,
        namespace: Any,
        values: Column,
        has: Flags,
        stamps: Any,
        there: Flags | None = None,
    ) -> Positions:
        """Store a value, or an entry without one, for each key; return the keys' numbers.

        Args:
            keys: the keys; of several values for a key, the last one counts.
            namespace: the namespace.
            values: the values.
            has: whether there is a value.
            stamps: the timestamps, or one for all; ignored in a state without timestamps.
            there: whether the entry has a value or a timestamp; None: all have.
        """
        numbers, _ = self.index.add(keys.encoded, self.spaces.number(namespace))
        self._stored.set(numbers, values, has, stamps, there)
        return numbers

    def put(self, keys: KeyBatch, namespace: Any, values: Column, has: Flags, stamps: Any) -> None:
        """Store a value for each key, or remove the key if there is none."""
        numbers = self.store(keys, namespace, values, has, stamps)
        if not has.all():
            self.remove(distinct(numbers[self._stored.lacking(numbers)]))

    def restamp(self, keys: KeyBatch, namespace: Any, stamp_ms: int) -> None:
        """Set a new timestamp for existing keys."""
        self._stored.restamp(self.find(keys, namespace), stamp_ms)

    def stamped(self, numbers: Positions) -> tuple[Positions, Positions]:
        """The numbers among these with a timestamp, and the timestamps."""
        numbers = self._stored.stamped(numbers)
        return numbers, self._stored.stamps[numbers]

    def remove(self, numbers: Positions) -> None:
        """Remove these keys, each given once; this may change all numbers."""
        self.take_out(numbers)
        self.compact_if_sparse()

    def take_out(self, numbers: Positions) -> None:
        """Remove these keys, each given once; the others keep their numbers."""
        self.index.remove(numbers)
        self._stored.let_go(numbers)

    def compact_if_sparse(self) -> None:
        """Rebuild the columns if most keys were removed."""
        if self.index.count > 2 * self.index.live + SPARE:
            self.compact()

    def clear(self, keys: KeyBatch, namespace: Any) -> None:
        """Remove keys, if they exist."""
        numbers = self.find(keys, namespace)
        self.remove(distinct(numbers[numbers != ABSENT]))

    def compact(self) -> None:
        """Rebuild the columns without removed keys, and drop unused namespaces."""
        self.made += 1
        self._stored.keep(self.index.compact())
        self._forget_spaces()

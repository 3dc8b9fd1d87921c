"""One value per key on heap, as columns: no object for any of them.

Numbers that `ByteIndex` gives to keys are positions in the columns of values and timestamps.
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
        """How much room the columns take."""
        total = self.index.total_bytes + self._stored.nbytes
        return Usage(total, self.index.dead_share(total))

    def get(self, data: bytes, namespace: Any) -> Stored:
        """What one key has, None when nothing is stored."""
        number = self.index.find_one(data, self.spaces.find(namespace))
        return None if number == ABSENT else self._stored.one(number)

    def has(self, data: bytes, namespace: Any) -> bool:
        """Whether a key is there."""
        return self.index.find_one(data, self.spaces.find(namespace)) != ABSENT

    def find(self, keys: KeyBatch, namespace: Any) -> Positions:
        """The number of each key, `ABSENT` where it is not there."""
        return self.index.find(keys.encoded, self.spaces.find(namespace))

    def fetch(self, keys: KeyBatch, namespace: Any) -> Cells:
        """What each key has."""
        return self.at(self.find(keys, namespace))

    def at(self, numbers: Positions) -> Cells:
        """What these numbers have; `ABSENT` has nothing."""
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
        """Store a value or an entry without one for each key, the last of a key's; their numbers.

        Args:
            keys: whose.
            namespace: in which namespace.
            values: the values.
            has: where there is a value.
            stamps: the timestamps, or one for all; anything in a state without.
            there: where the entry has a value or a timestamp; None for everywhere.
        """
        numbers, _ = self.index.add(keys.encoded, self.spaces.number(namespace))
        self._stored.set(numbers, values, has, stamps, there)
        return numbers

    def put(self, keys: KeyBatch, namespace: Any, values: Column, has: Flags, stamps: Any) -> None:
        """Store a value for each key, or remove the key where there is none."""
        numbers = self.store(keys, namespace, values, has, stamps)
        if not has.all():
            self.remove(distinct(numbers[self._stored.lacking(numbers)]))

    def restamp(self, keys: KeyBatch, namespace: Any, stamp_ms: int) -> None:
        """Give keys, all of which are there, a new timestamp."""
        self._stored.restamp(self.find(keys, namespace), stamp_ms)

    def stamped(self, numbers: Positions) -> tuple[Positions, Positions]:
        """Those of these numbers that have a timestamp, and the timestamps."""
        numbers = self._stored.stamped(numbers)
        return numbers, self._stored.stamps[numbers]

    def remove(self, numbers: Positions) -> None:
        """Remove these keys, each given once; numbers may be others afterwards."""
        self.take_out(numbers)
        self.compact_if_sparse()

    def take_out(self, numbers: Positions) -> None:
        """Remove these keys, each given once; the others keep their numbers."""
        self.index.remove(numbers)
        self._stored.let_go(numbers)

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
        self._stored.keep(self.index.compact())
        self._forget_spaces()

"""Entries of maps on heap, as columns: `HeapChains` whose items have names.

An entry's name consists of the key's length (4 bytes), the key, and the user key. A removed entry
keeps its number and its place in the chain. So a chain contains all entries that a key ever had
since the columns were built.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Flags, Positions, fixed_width, layout_of, slices
from idlestate.backends.runs.byte_index import ABSENT, ByteIndex, distinct
from idlestate.state.batch_values import Column
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.heap.item_chains import HeapChains
from idlestate.state.key_batch import KeyBatch
from idlestate.state.usage import Usage


class HeapEntries(HeapChains):
    """Entries of many maps."""

    def __init__(self, layout: ValueLayout) -> None:
        """Start without keys."""
        super().__init__(layout)
        self._names = ByteIndex()

    def usage(self) -> Usage:
        """The bytes of the columns."""
        size = self._names.total_bytes
        dead = size * (self.count - self.live) // max(self.count, 1)
        return super().usage() + Usage(size, dead)

    def find_entry(self, key: bytes, namespace: Any, user_key: bytes) -> int:
        """The number of an entry; `ABSENT` if it does not exist."""
        name = len(key).to_bytes(4, "big") + key + user_key
        number = self._names.find_one(name, self.spaces.find(namespace))
        return number if number >= 0 and self._alive[number] else ABSENT

    def user_key(self, number: int) -> bytes:
        """The encoded user key of an entry."""
        name = self._names.key(number)
        return name[4 + int.from_bytes(name[:4], "big") :]

    def user_keys(self, items: Positions) -> pa.BinaryArray:
        """The encoded user keys of entries."""
        names = self._names.keys.take(pa.array(items)).cast(pa.binary())
        data, starts, sizes = layout_of(names)
        size_of_key = np.ndarray((max(len(data) - 3, 0),), ">u4", buffer=data, strides=(1,))
        skipped = 4 + size_of_key[starts].astype(np.int64)
        return slices(data, starts + skipped, sizes - skipped)

    def find_entries(self, keys: KeyBatch, namespace: Any, user_keys: pa.BinaryArray) -> Positions:
        """The number of each entry; `ABSENT` for one that never existed."""
        return self._names.find(_names_of(keys, user_keys), self.spaces.find(namespace))

    def put(
        self,
        keys: KeyBatch,
        namespace: Any,
        user_keys: pa.BinaryArray,
        values: Column,
        has: Flags,
        stamps: Any,
    ) -> None:
        """Set an entry for each key; of several values for an entry, the last one counts."""
        first = self._names.count
        numbers, _ = self._names.add(_names_of(keys, user_keys), self.spaces.number(namespace))
        self._make_room(self._names.count)
        self._stored.set(numbers, values, has, stamps)
        rows = np.flatnonzero(~self._alive[numbers])
        if len(rows):
            self._revive(keys, namespace, numbers, rows, first)

    def _revive(
        self, keys: KeyBatch, namespace: Any, numbers: Positions, rows: Positions, first: int
    ) -> None:
        """Mark the entries of these rows as existing; those from `first` on are new."""
        row_of = np.empty(self.count, dtype=np.int64)
        row_of[numbers[rows]] = rows
        back = distinct(numbers[rows])
        owners = self.own(keys.take(row_of[back]), namespace)
        self._alive[back] = True
        self._link(first, owners[back >= first])
        self._count_in(owners)

    def remove_entries(self, keys: KeyBatch, namespace: Any, user_keys: pa.BinaryArray) -> None:
        """Remove entries, if they exist; a map without entries is removed."""
        numbers = self.find_entries(keys, namespace, user_keys)
        numbers = distinct(numbers[numbers != ABSENT])
        self.remove(numbers[self._alive[numbers]])
        owners = self.find(keys, namespace)
        self._drop(owners[self._counts[owners] == 0])

    def _drop(self, owners: Positions) -> None:
        """Does nothing: entries stay in their chains, where they are found if they return."""
        self.index.remove(owners)

    def compact(self) -> None:
        """Rebuild the columns without removed entries."""
        self._names.remove(np.flatnonzero(~self._alive[: self.count]))
        self._names.compact()
        super().compact()

    def _item_names(self) -> ByteIndex:
        return self._names.copy()


def _names_of(keys: KeyBatch, user_keys: pa.BinaryArray) -> pa.BinaryArray:
    sizes = pc.binary_length(keys.encoded).to_numpy(zero_copy_only=False).astype(">u4")
    return pc.binary_join_element_wise(fixed_width(sizes), keys.encoded, user_keys, b"")

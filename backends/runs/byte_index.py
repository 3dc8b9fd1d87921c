"""Distinct byte strings, numbered, in a few flat arrays: the index of keys on heap.

A dict of a million keys is three million objects. Here a key costs its bytes and about 40 more:

    arena, ends    the bytes of all keys, one behind the other in the order of their numbers
    hashes         8 bytes a key
    slots          4 bytes each, at least two a key: an open hash table of numbers, probed in line
    spaces, alive  the namespace's number, and whether the key is there

A removed key keeps its number until `compact`, and gets it back when it is added again. Batch
look-ups probe the table in rounds of array operations; keys with equal hashes are always compared.
"""

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import Flags, Positions, layout_of
from idlestate.backends.runs.byte_hashes import Hashes, hash_of, hashes_of

ABSENT: Final = -1

T = TypeVar("T", bound=np.generic)


class ByteIndex:
    """Numbers byte strings of namespaces.

    Attributes:
        count: numbers assigned so far, including those of removed keys.
        live: how many keys exist.
    """

    def __init__(self) -> None:
        """Start without keys."""
        self.count = self.live = 0
        self._arena = np.empty(0, dtype=np.uint8)
        self._ends = np.zeros(1, dtype=np.int64)
        self._hashes = np.empty(0, dtype=np.uint64)
        self._spaces = np.empty(0, dtype=np.int32)
        self._alive = np.empty(0, dtype=np.bool_)
        self._slots = np.zeros(16, dtype=np.int32)
        self._look()

    def _look(self) -> None:
        """Views for single look-ups, which return plain numbers faster than arrays do."""
        self._views = (
            self._slots.data,
            self._hashes.data,
            self._spaces.data,
            self._ends.data,
            self._arena.data,
        )

    @property
    def nbytes(self) -> int:
        """Memory, without the bytes of the keys."""
        columns = (self._ends, self._hashes, self._spaces, self._alive, self._slots)
        return sum([each.nbytes for each in columns])

    @property
    def total_bytes(self) -> int:
        """Memory of the index, including the keys."""
        return self.nbytes + self._arena.nbytes

    def dead_share(self, size: int) -> int:
        """The part of this memory that belongs to removed keys."""
        return size * (self.count - self.live) // max(self.count, 1)

    @property
    def alive(self) -> Flags:
        """Which numbers belong to existing keys."""
        return self._alive[: self.count]

    @property
    def spaces(self) -> npt.NDArray[np.int32]:
        """The namespace of each number."""
        return self._spaces[: self.count]

    @property
    def keys(self) -> pa.LargeBinaryArray:
        """The bytes of each key, without a copy."""
        buffers = [None, pa.py_buffer(self._ends), pa.py_buffer(self._arena)]
        return pa.Array.from_buffers(pa.large_binary(), self.count, buffers)

    def key(self, number: int) -> bytes:
        """The bytes of the key with this number."""
        return self._arena[self._ends[number] : self._ends[number + 1]].tobytes()

    # -------------------------------------------------------------- one

    def find_one(self, data: bytes, space: int) -> int:
        """The number of a key; `ABSENT` if it does not exist."""
        if not self.count:
            return ABSENT
        number = self._probe(data, space, hash_of(data, space))
        return number if number >= 0 and self._alive[number] else ABSENT

    def _probe(self, data: bytes, space: int, code: int) -> int:
        slots, hashes, spaces, ends, arena = self._views
        mask = len(slots) - 1
        at = code & mask
        while number := slots[at]:
            number -= 1
            if (
                hashes[number] == code
                and spaces[number] == space
                and arena[ends[number] : ends[number + 1]] == data
            ):
                return number
            at = at + 1 & mask
        return ABSENT

    # -------------------------------------------------------------- many

    def find(self, array: pa.BinaryArray, space: int) -> Positions:
        """The number of each key; `ABSENT` for those that do not exist."""
        found = self._find(array, space, hashes_of(array, space))
        found[found >= 0] = np.where(self._alive[found[found >= 0]], found[found >= 0], ABSENT)
        return found

    def _find(self, array: pa.BinaryArray, space: int, codes: Hashes) -> Positions:
        """The number of each key, whether existing or removed."""
        found = np.full(len(array), ABSENT, dtype=np.int64)
        if not self.count or not len(array):
            return found
        mask = np.uint64(len(self._slots) - 1)
        at = (codes & mask).astype(np.int64)
        left = np.arange(len(array))
        while len(left):
            slots = self._slots[at]
            used = slots != 0
            left, at, number = left[used], at[used], slots[used] - 1
            same = self._hashes[number] == codes[left]
            found[left[same]] = number[same]
            left, at = left[~same], (at[~same] + 1) & np.int64(mask)
        there = np.flatnonzero(found >= 0)
        if not len(there):
            return found
        numbers = found[there]
        stored = self.keys.take(pa.array(numbers)).cast(pa.binary())
        wanted = array if len(there) == len(array) else array.take(pa.array(there))
        equal = pc.equal(stored, wanted).to_numpy(zero_copy_only=False)
        equal &= self._spaces[numbers] == space
        for row in there[~equal].tolist():  # another key with the same hash
            found[row] = self._probe(array[row].as_py(), space, int(codes[row]))
        return found

    def add(self, array: pa.BinaryArray, space: int) -> tuple[Positions, Positions]:
        """The number of each key; new keys get one.

        Returns:
            The numbers, and without repetition those of keys that did not exist.
        """
        codes = hashes_of(array, space)
        found = self._find(array, space, codes)
        new, first = found == ABSENT, self.count
        back = found[~new]
        back = distinct(back[~self._alive[back]])
        if new.any():
            added, hashes = array.filter(pa.array(new)), codes[new]
            each = np.arange(len(added))
            if len(distinct(hashes)) < len(hashes):  # a key may occur twice
                coded = added.dictionary_encode()
                added, each = coded.dictionary, coded.indices.to_numpy(zero_copy_only=False)
                hashes = np.empty(len(added), dtype=np.uint64)
                hashes[each] = codes[new]
            self._append(added, space, hashes)
            found[new] = first + each
        fresh = np.concatenate((np.arange(first, self.count), back))
        self._alive[fresh] = True
        self.live += len(fresh)
        return found, fresh

    def _append(self, keys: pa.BinaryArray, space: int, hashes: Hashes) -> None:
        """Assign numbers to keys without one."""
        first, count = self.count, self.count + len(keys)
        data, starts, sizes = layout_of(keys)
        filled = int(self._ends[first])
        end = filled + len(data) - 8
        self._arena = grown(self._arena, end)
        self._arena[filled:end] = data[:-8]
        self._ends = grown(self._ends, count + 1)
        self._ends[first + 1 : count + 1] = filled + starts + sizes
        self._hashes = grown(self._hashes, count)
        self._hashes[first:count] = hashes
        self._spaces = grown(self._spaces, count)
        self._spaces[first:count] = space
        self._alive = grown(self._alive, count)
        self._alive[first:count] = False
        self.count = count
        if 2 * count > len(self._slots):
            # In the order of the old slots, so that they fill the new ones almost in order, too.
            old = self._slots[self._slots != 0] - 1
            self._slots = np.zeros(1 << (2 * count).bit_length(), dtype=np.int32)
            self._place(old)
        self._place(np.arange(first, count, dtype=np.int32))
        self._look()

    def _place(self, numbers: npt.NDArray[np.int32]) -> None:
        """Put numbers into slots, or into the next slot if one is taken."""
        mask = np.int64(len(self._slots) - 1)
        at = (self._hashes[numbers] & np.uint64(mask)).astype(np.int64)
        while len(numbers):
            free = self._slots[at] == 0
            self._slots[at[free]] = numbers[free] + 1
            placed = self._slots[at] == numbers + 1
            numbers, at = numbers[~placed], (at[~placed] + 1) & mask

    def remove(self, numbers: Positions) -> None:
        """Remove these keys; each must exist and occur once."""
        self._alive[numbers] = False
        self.live -= len(numbers)

    def compact(self) -> Positions:
        """Renumber the existing keys in order; return their previous numbers."""
        kept = np.flatnonzero(self.alive)
        keys, hashes, spaces = self.keys.take(pa.array(kept)), self._hashes[kept], self.spaces[kept]
        _, ends, data = keys.buffers()
        self._ends = np.frombuffer(ends, dtype=np.int64)[: len(kept) + 1].copy()
        size = int(self._ends[-1])
        self._arena = np.frombuffer(data, dtype=np.uint8)[:size].copy() if size else self._arena[:0]
        self._hashes, self._spaces = hashes, spaces
        self._alive = np.ones(len(kept), dtype=np.bool_)
        self.count = self.live = len(kept)
        self._slots = np.zeros(max(1 << (2 * len(kept)).bit_length(), 16), dtype=np.int32)
        self._place(np.arange(len(kept), dtype=np.int32))
        self._look()
        return kept

    def copy(self) -> "ByteIndex":
        """The current index, unaffected by later changes; only flags are copied.

        Entries beyond the count are never read, so the copy shares all other arrays. It is
        read-only.
        """
        other = ByteIndex()
        other.count, other.live = self.count, self.live
        other._arena, other._ends, other._hashes = self._arena, self._ends, self._hashes
        other._spaces, other._slots = self._spaces, self._slots
        other._alive = self.alive.copy()
        return other


def distinct(numbers: npt.NDArray[T]) -> npt.NDArray[T]:
    """The distinct numbers, sorted; several times as fast as numpy, which uses a hash table."""
    ordered = np.sort(numbers)
    if len(ordered) < 2:
        return ordered
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def grown(column: npt.NDArray[T], size: int) -> npt.NDArray[T]:
    """The column with room for this many items; if it must grow, with a fifth more."""
    if size <= len(column):
        return column
    larger = np.empty(size + size // 5 + 16, dtype=column.dtype)
    larger[: len(column)] = column
    return larger

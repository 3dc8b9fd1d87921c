"""A blocked Bloom filter over key hashes: most keys that a segment lacks are known without it.

Every key sets four bits in one 64-bit block. The block goes by where the hash lies between the
lowest and the highest, so that blocks follow the sorted hashes: building is one pass, and a look-up
in order of hash walks through memory. With 10 bits a key about one absent key in fifty passes.
Source: Putze, Sanders and Singler, Cache-, Hash- and Space-Efficient Bloom Filters, 2007.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.reading import Reading, Touch

BITS_PER_KEY = 10
_HALF = np.uint64(32)
_PAIR_BITS, _PAIR_MASK = np.uint64(12), np.uint64(4095)
_NUMBERS = np.arange(4096, dtype=np.uint64)
_PAIRS = (np.uint64(1) << (_NUMBERS & np.uint64(63))) | (np.uint64(1) << (_NUMBERS >> np.uint64(6)))
"""For 12 bits of a hash the two bits of a block that they name."""
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Filter:
    """The blocks, and the lowest and highest hash."""

    blocks: Words
    low: int
    high: int

    @classmethod
    def of(cls, hashes: Ints) -> "Filter":
        """The filter of ascending hashes, at least one."""
        count = -(-len(hashes) * BITS_PER_KEY // 64)
        low, high = int(hashes[0]), int(hashes[-1])
        at = _block(hashes, low, high, count)
        begins = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))
        blocks = np.zeros(count, dtype=np.uint64)
        blocks[at[begins]] = np.bitwise_or.reduceat(_bits(hashes), begins)
        return cls(blocks, low, high)

    def may_hold(self, hashes: Ints) -> Reading[npt.NDArray[np.bool_]]:
        """False where the hash, which must lie between lowest and highest, is not held for sure."""
        bits = _bits(hashes)
        at = _block(hashes, self.low, self.high, len(self.blocks))
        yield Touch.rows([self.blocks], at)
        found: npt.NDArray[np.bool_] = (self.blocks[at] & bits) == bits
        return found


def _block(hashes: Ints, low: int, high: int, count: int) -> Ints:
    """The block of each hash: its place between low and high, in 32 bits, times the blocks."""
    narrow = np.uint64(max(0, (high - low).bit_length() - 32))
    above = (hashes.view(np.uint64) - np.int64(low).view(np.uint64)) >> narrow
    span = np.uint64((high - low) >> int(narrow)) + np.uint64(1)
    return ((above * np.uint64(count)) // span).astype(np.int64)


def _bits(hashes: Ints) -> Words:
    """Four of 64 bits, from hash bits that say nothing about the block."""
    mixed = hashes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> _HALF
    low = (mixed & _PAIR_MASK).astype(np.intp)
    high = ((mixed >> _PAIR_BITS) & _PAIR_MASK).astype(np.intp)
    return np.asarray(_PAIRS[low] | _PAIRS[high])

"""A blocked Bloom filter over key hashes: excludes most absent keys without reading the segment.

Every key sets four bits in one 64-bit block. The position of the hash between the lowest and the
highest hash determines the block, so blocks follow the sorted hashes: building takes one pass, and
look-ups in order of hash access memory sequentially. With 10 bits per key, about 1 in 50 absent
keys passes. Source: Putze, Sanders and Singler, Cache-, Hash- and Space-Efficient Bloom Filters,
2007.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.byte_source import Ints, Source

BITS_PER_KEY = 10
_HALF = np.uint64(32)
_PAIR_BITS, _PAIR_MASK = np.uint64(12), np.uint64(4095)
_NUMBERS = np.arange(4096, dtype=np.uint64)
_PAIRS = (np.uint64(1) << (_NUMBERS & np.uint64(63))) | (np.uint64(1) << (_NUMBERS >> np.uint64(6)))
"""For 12 bits of a hash, the mask of the two block bits that they select."""
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Filter:
    """The blocks of one segment."""

    blocks: Words

    @classmethod
    def of(cls, hashes: Ints) -> "Filter":
        """The filter of ascending hashes, at least one."""
        count = -(-len(hashes) * BITS_PER_KEY // 64)
        at = _block(hashes, hashes[:1], hashes[-1:], np.array([count]))
        begins = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))
        blocks = np.zeros(count, dtype=np.uint64)
        blocks[at[begins]] = np.bitwise_or.reduceat(_bits(hashes), begins)
        return cls(blocks)


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a run's segments, in its file."""

    source: Source
    begins: Ints
    """Where each filter begins in the file, in blocks."""
    counts: Ints
    """The number of blocks of each filter."""
    lows: Ints
    highs: Ints
    """The lowest and highest hash of each segment."""

    def may_hold(self, hashes: Ints) -> npt.NDArray[np.bool_]:
        """False where certainly no segment has the hash; hashes ascend."""
        found = np.zeros(len(hashes), dtype=bool)
        at = np.zeros(1, dtype=np.int64)  # the one segment that most runs have serves all hashes
        if len(self.lows) > 1:
            at = np.maximum(np.searchsorted(self.lows, hashes, side="right") - 1, 0)
        inside = np.flatnonzero((self.lows[at] <= hashes) & (hashes <= self.highs[at]))
        at, hashes = at if len(at) == 1 else at[inside], hashes[inside]
        places = _block(hashes, self.lows[at], self.highs[at], self.counts[at]) + self.begins[at]
        self.source.need(places * 8, places * 8 + 8)
        blocks = np.frombuffer(self.source.data, dtype="<u8", count=self.source.data.size // 8)
        bits = _bits(hashes)
        found[inside] = (blocks[places] & bits) == bits
        return found


def _block(hashes: Ints, low: Ints, high: Ints, count: Ints) -> Ints:
    """The block of each hash: its position between low and high, as a 32-bit fraction, times the
    number of blocks.
    """
    span = high.view(np.uint64) - low.view(np.uint64)
    # The number of bits of the span beyond 32.
    narrow = np.frexp((span >> _HALF).astype(np.float64))[1].astype(np.uint64)
    above = (hashes.view(np.uint64) - low.view(np.uint64)) >> narrow
    return ((above * count.view(np.uint64)) // ((span >> narrow) + np.uint64(1))).astype(np.int64)


def _bits(hashes: Ints) -> Words:
    """Four of 64 bits, from hash bits that are independent of the block."""
    mixed = hashes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> _HALF
    low = (mixed & _PAIR_MASK).astype(np.intp)
    high = ((mixed >> _PAIR_BITS) & _PAIR_MASK).astype(np.intp)
    return np.asarray(_PAIRS[low] | _PAIRS[high])

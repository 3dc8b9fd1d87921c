"""64-bit hashes of byte strings, one by one or vectorized over an array.

They are used to find keys in memory and are never stored; keys with equal hashes are compared.
"""

import struct
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from idlestate.backends.runs.byte_arrays import layout_of

_WORDS: Final = 16
"""Keys of up to this many 8-byte words are hashed by array operations; longer ones by XXH64."""

_FACTOR: Final = 0x9E3779B97F4A7C15
_SPACE: Final = 0xC2B2AE3D27D4EB4F
_ALL: Final = (1 << 64) - 1
_PACKED: Final = [struct.Struct(f"<{count}Q") for count in range(_WORDS + 1)]
_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)

Hashes = npt.NDArray[np.uint64]


def hash_of(data: bytes, space: int) -> int:
    """The hash of one byte string in a namespace: a polynomial of its words, and a last mixing."""
    size = len(data)
    if size > 8 * _WORDS:
        return xxhash.xxh64_intdigest(data, space)
    code = (size ^ space * _SPACE) & _ALL
    words = _PACKED[(size + 7) // 8]
    for word in words.unpack(data + bytes(words.size - size)):
        code = (code + word) * _FACTOR & _ALL
    code = (code ^ code >> 32) * _FACTOR & _ALL
    return code ^ code >> 29


def hashes_of(array: pa.BinaryArray, space: int) -> Hashes:
    """`hash_of` each."""
    data, starts, sizes = layout_of(array)
    words = np.ndarray((max(len(data) - 7, 1),), dtype="<u8", buffer=data, strides=(1,))
    factor = np.uint64(_FACTOR)
    codes = sizes.astype(np.uint64) ^ np.uint64(space * _SPACE & _ALL)
    longest = min(int(sizes.max(initial=0)), 8 * _WORDS)
    even = longest == int(sizes.min(initial=longest))
    for at in range(0, longest, 8):
        rows = slice(None) if even else np.flatnonzero(sizes > at)
        word = words[starts[rows] + at]
        if at + 8 > longest or not even:
            word = word & _MASKS[np.minimum(sizes[rows] - at, 8)]
        codes[rows] = (codes[rows] + word) * factor
    codes = (codes ^ codes >> np.uint64(32)) * factor
    codes ^= codes >> np.uint64(29)
    for row in np.flatnonzero(sizes > 8 * _WORDS).tolist():
        codes[row] = xxhash.xxh64_intdigest(array[row].as_py(), space)
    return codes

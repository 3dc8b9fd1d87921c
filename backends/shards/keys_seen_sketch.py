"""An estimate of the number of distinct keys ever seen, in 4 KB: HyperLogLog over key hashes.

4,096 registers store the longest sequence of leading zeros; the standard error is
1.04 / sqrt(4096) = 1.6 % for one sketch, and less for a sum over shards, whose keys are disjoint.
Small counts are derived from the empty registers (linear counting). Source: Flajolet et al., 2007.
"""

import math

import numpy as np
import numpy.typing as npt

_BITS = 12
REGISTERS = 1 << _BITS
Registers = npt.NDArray[np.uint8]


def empty() -> Registers:
    """An empty sketch."""
    return np.zeros(REGISTERS, dtype=np.uint8)


def lacks(registers: Registers, hashes: npt.NDArray[np.int64]) -> bool:
    """Whether some of these hashes were certainly never added; False proves nothing."""
    return bool((add(registers, hashes) != registers).any())


def add(registers: Registers, hashes: npt.NDArray[np.int64]) -> Registers:
    """The sketch after adding these hashes (int64, with repetitions)."""
    # Shards are ranges of hashes, so the top bits of a shard's keys are equal: mix them first.
    mixed = hashes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    register = (mixed >> np.uint64(64 - _BITS)).astype(np.int64)
    rest = (mixed << np.uint64(_BITS)) | np.uint64(1 << (_BITS - 1))
    leading = 64 - np.floor(np.log2(rest.astype(np.float64))).astype(np.int64)
    grown = registers.copy()
    np.maximum.at(grown, register, leading.astype(np.uint8))
    return grown


def estimate(registers: Registers) -> float:
    """The estimated number of distinct hashes added."""
    empty_registers = int((registers == 0).sum())
    raw = (
        0.7213
        / (1 + 1.079 / REGISTERS)
        * REGISTERS**2
        / float(np.exp2(-registers.astype(float)).sum())
    )
    if raw <= 2.5 * REGISTERS and empty_registers:
        return REGISTERS * math.log(REGISTERS / empty_registers)
    return raw

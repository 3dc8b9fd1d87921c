"""Key groups: the smallest parts of keyed state, and their distribution over instances.

A key's group is `murmur(hash) % max_parallelism`, with the hash code of its Java class. Instance i
of n owns one contiguous range of groups. All of this is as in Flink (`KeyGroupRangeAssignment`,
`MathUtils.murmurHash`), and checked against recordings.

Shards of the pipeline use Spark's xxhash64 instead, because the JVM must assign them before Python
sees a row (`idlestate.backends.runs.key_hashes`). The two never meet: shards occur in Spark's
checkpoints, key groups in snapshots of the library.
"""

import struct
from dataclasses import dataclass
from numbers import Integral

import mmh3
import numpy as np
import numpy.typing as npt

from idlestate.state.errors import KeyGroupError

MAX_PARALLELISM_LIMIT = 1 << 15
DEFAULT_MAX_PARALLELISM = 128

_INT_BYTES = struct.Struct("<i")


@dataclass(frozen=True, slots=True, order=True)
class KeyGroupRange:
    """Key groups `first` to `last`, both included."""

    first: int
    last: int

    def __post_init__(self) -> None:
        whole = are_whole(self.first, self.last)
        if not (whole and 0 <= self.first <= self.last < MAX_PARALLELISM_LIMIT):
            raise KeyGroupError(
                f"key groups {self.first} to {self.last}: they must be integers within "
                f"0 to {MAX_PARALLELISM_LIMIT - 1}, with first <= last"
            )

    def __contains__(self, group: int) -> bool:
        return self.first <= group <= self.last

    def __len__(self) -> int:
        return self.last - self.first + 1


def are_whole(*numbers: object) -> bool:
    """Whether these are integers, of Python or numpy."""
    return all(isinstance(each, Integral) for each in numbers)


ALL_GROUPS = KeyGroupRange(0, MAX_PARALLELISM_LIMIT - 1)


def check_parallelism(max_parallelism: int, parallelism: int = 1) -> None:
    """Raise `KeyGroupError` if this many instances cannot share this many key groups."""
    if not (are_whole(max_parallelism) and 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT):
        raise KeyGroupError(
            f"max parallelism is {max_parallelism}: it must be 1 to {MAX_PARALLELISM_LIMIT}"
        )
    if not (are_whole(parallelism) and 1 <= parallelism <= max_parallelism):
        raise KeyGroupError(
            f"parallelism is {parallelism} with max parallelism {max_parallelism}: it must be "
            f"1 to {max_parallelism}, since each instance owns at least one key group"
        )


def key_group_range(max_parallelism: int, parallelism: int, index: int) -> KeyGroupRange:
    """The key groups of instance `index` of `parallelism`."""
    check_parallelism(max_parallelism, parallelism)
    if not (are_whole(index) and 0 <= index < parallelism):
        raise KeyGroupError(f"index is {index}: with parallelism {parallelism} it starts at 0")
    first = (index * max_parallelism + parallelism - 1) // parallelism
    last = ((index + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(first, last)


def operator_index(group: int, max_parallelism: int, parallelism: int) -> int:
    """The instance that owns a key group."""
    return group * parallelism // max_parallelism


def default_max_parallelism(parallelism: int) -> int:
    """The default of the max parallelism: room to grow by half, at least 128."""
    if not 1 <= parallelism <= MAX_PARALLELISM_LIMIT:
        raise KeyGroupError(
            f"parallelism is {parallelism}: it must be 1 to {MAX_PARALLELISM_LIMIT}"
        )
    wanted = parallelism + parallelism // 2
    power = 1 << (wanted - 1).bit_length()
    return min(max(power, DEFAULT_MAX_PARALLELISM), MAX_PARALLELISM_LIMIT)


def murmur(hash_code: int) -> int:
    """Flink's `murmurHash` of a 32-bit hash code: 0 to 2^31-1."""
    mixed: int = mmh3.hash(_INT_BYTES.pack(hash_code), 0)
    if mixed == -(1 << 31):
        return 0
    return abs(mixed)


def key_group(hash_code: int, max_parallelism: int) -> int:
    """The key group of a key with this Java hash code."""
    return murmur(hash_code) % max_parallelism


def key_groups(hash_codes: npt.NDArray[np.int32], max_parallelism: int) -> npt.NDArray[np.int32]:
    """`key_group` of many keys, in array steps."""
    h = hash_codes.astype(np.uint32)
    h *= np.uint32(0xCC9E2D51)
    h = (h << np.uint32(15)) | (h >> np.uint32(17))
    h *= np.uint32(0x1B873593)
    h = (h << np.uint32(13)) | (h >> np.uint32(19))
    h = h * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(4)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h ^= h >> np.uint32(shift)
        h *= np.uint32(factor)
    mixed = np.abs(h.view(np.int32).astype(np.int64))
    mixed[mixed == 1 << 31] = 0
    return (mixed % max_parallelism).astype(np.int32)

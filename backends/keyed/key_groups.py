"""Key groups: the smallest parts that keyed state is split into, and how they spread.

A key's group is `murmur(hash) % max_parallelism`, the hash being the one its Java class would
have; instance i of n owns one contiguous range of groups. All of it as Flink does it
(`KeyGroupRangeAssignment`, `MathUtils.murmurHash`), checked against recordings.

Shards of the pipeline go by Spark's xxhash64 instead, since the JVM has to assign them before
Python sees a row (`idlestate.backends.hashing`). The two never meet: a shard is named in Spark's
checkpoint, a key group in snapshots of the library.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.keyed.errors import KeyGroupError, StateMigrationError

MAX_PARALLELISM_LIMIT = 1 << 15
DEFAULT_MAX_PARALLELISM = 128

_INT_BYTES = struct.Struct("<i")


@dataclass(frozen=True, slots=True, order=True)
class KeyGroupRange:
    """Key groups `first` to `last`, both included."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last < MAX_PARALLELISM_LIMIT:
            raise KeyGroupError(
                f"key groups {self.first} to {self.last}: they have to lie in "
                f"0 to {MAX_PARALLELISM_LIMIT - 1}, the first not after the last"
            )

    def __contains__(self, group: int) -> bool:
        return self.first <= group <= self.last

    def __len__(self) -> int:
        return self.last - self.first + 1

    def intersection(self, other: "KeyGroupRange") -> "KeyGroupRange | None":
        """The groups in both, None when there are none."""
        first, last = max(self.first, other.first), min(self.last, other.last)
        return KeyGroupRange(first, last) if first <= last else None


def check_parallelism(max_parallelism: int, parallelism: int = 1) -> None:
    """Raise `KeyGroupError` when this many instances cannot share this many key groups."""
    if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        raise KeyGroupError(
            f"max parallelism is {max_parallelism}: it has to be 1 to {MAX_PARALLELISM_LIMIT}"
        )
    if not 1 <= parallelism <= max_parallelism:
        raise KeyGroupError(
            f"parallelism is {parallelism} with max parallelism {max_parallelism}: it has to be "
            f"1 to {max_parallelism}, since each instance owns at least one key group"
        )


def key_group_range(max_parallelism: int, parallelism: int, index: int) -> KeyGroupRange:
    """The key groups of instance `index` of `parallelism`."""
    check_parallelism(max_parallelism, parallelism)
    if not 0 <= index < parallelism:
        raise KeyGroupError(f"index is {index}: with parallelism {parallelism} it starts at 0")
    first = (index * max_parallelism + parallelism - 1) // parallelism
    last = ((index + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(first, last)


def operator_index(group: int, max_parallelism: int, parallelism: int) -> int:
    """Which instance owns a key group."""
    return group * parallelism // max_parallelism


def default_max_parallelism(parallelism: int) -> int:
    """The max parallelism taken when none is named: room to grow by half, at least 128."""
    if not 1 <= parallelism <= MAX_PARALLELISM_LIMIT:
        raise KeyGroupError(
            f"parallelism is {parallelism}: it has to be 1 to {MAX_PARALLELISM_LIMIT}"
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
    """`key_group` of many, by the same murmur in array steps."""
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


# ------------------------------------------------------------------ Java's hash codes


def _wrap(value: int) -> int:
    """The low 32 bits as Java's signed int."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def _of_int(value: int) -> int:
    return value


def _of_long(value: int) -> int:
    bits = value & 0xFFFFFFFFFFFFFFFF
    return _wrap(bits ^ (bits >> 32))


def _of_bool(value: bool) -> int:
    return 1231 if value else 1237


def _of_double(value: float) -> int:
    canonical = float("nan") if value != value else value  # noqa: PLR0124 - NaN
    (bits,) = struct.unpack(">q", struct.pack(">d", canonical))
    return _of_long(bits)


def _of_float(value: float) -> int:
    canonical = float("nan") if value != value else value  # noqa: PLR0124 - NaN
    (bits,) = struct.unpack(">i", struct.pack(">f", canonical))
    return int(bits)


@lru_cache(maxsize=1 << 16)
def _of_string(value: str) -> int:
    code = 0
    # UTF-16 units, as Java's strings have them: two for a character beyond the first plane.
    raw = value.encode("utf-16-le", "surrogatepass")
    for unit in memoryview(raw).cast("H"):
        code = (code * 31 + unit) & 0xFFFFFFFF
    return _wrap(code)


def _of_bytes(value: bytes) -> int:
    code = 1  # java.util.Arrays.hashCode(byte[])
    for byte in value:
        code = (code * 31 + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
    return _wrap(code)


def java_hash(kind: pa.DataType) -> Callable[[Any], int]:
    """The function that hashes keys of this type as their Java class does.

    Types: integers, floats, strings, booleans, bytes, and structs as Flink's tuples (keys are
    Python tuples then).

    Raises:
        StateMigrationError: the type cannot be a key.
    """
    if pa.types.is_int64(kind):
        return _of_long
    if pa.types.is_int8(kind) or pa.types.is_int16(kind) or pa.types.is_int32(kind):
        return _of_int
    if pa.types.is_string(kind):
        return _of_string
    if pa.types.is_boolean(kind):
        return _of_bool
    if pa.types.is_float64(kind):
        return _of_double
    if pa.types.is_float32(kind):
        return _of_float
    if pa.types.is_binary(kind):
        return _of_bytes
    if pa.types.is_struct(kind):
        parts = [java_hash(field.type) for field in kind]

        def of_tuple(value: tuple[Any, ...]) -> int:
            code = 0
            for at, (part, item) in enumerate(zip(parts, value, strict=True)):
                hashed = 0 if item is None else part(item)
                code = hashed if at == 0 else 31 * code + hashed
            return _wrap(code)

        return of_tuple
    raise StateMigrationError(f"{kind} cannot be the type of keys")


def java_hashes(keys: list[Any], kind: pa.DataType) -> npt.NDArray[np.int32]:
    """Hash codes of many keys: in array steps where the type allows it."""
    if pa.types.is_int64(kind):
        bits = np.array(keys, dtype=np.int64).view(np.uint64)
        folded: npt.NDArray[np.int32] = (bits ^ (bits >> np.uint64(32))).astype(np.uint32)
        return folded.view(np.int32)
    if pa.types.is_string(kind) and keys:
        return _string_hashes(keys)
    of = java_hash(kind)
    return np.fromiter(map(of, keys), dtype=np.int32, count=len(keys))


def _string_hashes(keys: list[str]) -> npt.NDArray[np.int32]:
    """The 31-polynomial of all strings at once, one step for each position.

    Every step takes the strings that reach to that position: sorted by length, they are one
    slice.
    """
    raw = [key.encode("utf-16-le", "surrogatepass") for key in keys]
    lengths = np.fromiter(map(len, raw), dtype=np.int64, count=len(raw)) // 2
    units = np.frombuffer(b"".join(raw), dtype="<u2")
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    order = np.argsort(lengths, kind="stable")
    sorted_lengths, sorted_starts = lengths[order], starts[order]
    codes = np.zeros(len(raw), dtype=np.uint32)
    for at in range(int(sorted_lengths[-1])):
        begin = int(np.searchsorted(sorted_lengths, at, side="right"))
        part = codes[begin:]
        part *= np.uint32(31)
        part += units[sorted_starts[begin:] + at].astype(np.uint32)
    found = np.empty(len(raw), dtype=np.uint32)
    found[order] = codes
    return found.view(np.int32)

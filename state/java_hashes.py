"""Hash codes of keys as their Java classes compute them, from which key groups follow."""

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Positions, layout_of
from idlestate.state.errors import StateMigrationError
from idlestate.state.key_batch import KeyBatch


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
    for unit in value.encode() if value.isascii() else _utf_16_units(value):
        code = code * 31 + unit & 0xFFFFFFFF
    return _wrap(code)


def _utf_16_units(value: str) -> Iterable[int]:
    """The units of Java's string: two beyond the first plane; those of ASCII are its bytes."""
    return memoryview(value.encode("utf-16-le", "surrogatepass")).cast("H")


def _of_bytes(value: bytes) -> int:
    code = 1  # java.util.Arrays.hashCode(byte[])
    for byte in value:
        code = (code * 31 + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
    return _wrap(code)


def java_hash(kind: pa.DataType) -> Callable[[Any], int]:
    """The function that hashes keys of this type like their Java class.

    Types: integers, floats, strings, booleans, bytes, and structs as Flink's tuples (such keys are
    Python tuples).

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


def java_hashes(keys: KeyBatch) -> npt.NDArray[np.int32]:
    """Hash codes of many keys, in array steps if the type allows it."""
    kind = keys.codec.kind
    if pa.types.is_int64(kind):
        data, _, _ = layout_of(keys.encoded)
        bits = np.frombuffer(data, dtype=">u8", count=len(keys)).astype(np.uint64)
        folded: npt.NDArray[np.int32] = (bits ^ (bits >> np.uint64(32))).astype(np.uint32)
        return folded.view(np.int32)
    if pa.types.is_string(kind):
        data, starts, sizes = layout_of(keys.encoded)
        if not len(data) or data.max() < 128:
            return _string_hashes(data, starts, sizes)
        raw = [key.encode("utf-16-le", "surrogatepass") for key in keys.keys]
        sizes = np.fromiter(map(len, raw), dtype=np.int64, count=len(raw)) // 2
        units = np.frombuffer(b"".join(raw), dtype="<u2")
        return _string_hashes(units, np.cumsum(sizes) - sizes, sizes)
    of = java_hash(kind)
    return np.fromiter(map(of, keys.keys), dtype=np.int32, count=len(keys))


def _string_hashes(
    units: npt.NDArray[Any], starts: Positions, sizes: Positions
) -> npt.NDArray[np.int32]:
    """The 31-polynomial of all strings at once, one step for each position.

    Every step handles the strings that reach to that position: sorted by length, they are one
    slice.

    Args:
        units: UTF-16 units of all strings, as numbers.
        starts: where each string begins.
        sizes: the number of units of each string.
    """
    order = np.argsort(sizes, kind="stable")
    sizes, starts = sizes[order], starts[order]
    codes = np.zeros(len(sizes), dtype=np.uint32)
    for at in range(int(sizes[-1]) if len(sizes) else 0):
        begin = int(np.searchsorted(sizes, at, side="right"))
        part = codes[begin:]
        part *= np.uint32(31)
        part += units[starts[begin:] + at].astype(np.uint32)
    found = np.empty(len(codes), dtype=np.uint32)
    found[order] = codes
    return found.view(np.int32)

"""Hashes of keys, the same in Python as Spark SQL's `xxhash64` in the JVM.

Spark's function is standard XXH64 with seed 42, chained over the columns: the hash of one column is
the seed of the next, and a null leaves it unchanged. Booleans, small integers and dates hash as
four little-endian bytes, long integers and timestamps (microseconds) as eight.

A chain cannot tell (null, a) from (a, null). So keys of several columns are hashed with an
additional long column, whose bit i says that column i is null (`idlestate.pipeline.key_hash` in the
JVM).

Values of equal length are hashed together (`xxh64`); a small number of values is hashed by the
library.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from idlestate.backends.runs.fields import is_valid, to_int64
from idlestate.backends.runs.xxh64 import xxh64

SEED = 42
_FEW = 64
"""Up to this many values are hashed one by one."""
_BLOCK = 1 << 14
"""Values hashed at once, so that intermediate results stay in the processor's cache."""
_BLOCK_BYTES = 1 << 19
"""Bytes that are gathered at once if they are not adjacent."""

Hashes = npt.NDArray[np.uint64]


def hash_keys(keys: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """64-bit hashes of rows of key columns (63 at most)."""
    if len(keys) == 1:
        return hash_before(keys)
    return hash_after(hash_before(keys[:-1]), keys)


def hash_before(keys: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """The chain of the first key columns, which `hash_after` continues."""
    hashes = np.full(len(keys[0]), SEED, dtype=np.uint64)
    for column in keys:
        _take_in(hashes, column)
    return hashes.view(np.int64)


def hash_after(before: npt.NDArray[np.int64], keys: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """Hashes of rows of several key columns, from the chain of all columns except the last."""
    hashes = before.view(np.uint64).copy()
    for column in (keys[-1], _absences(keys)):
        _take_in(hashes, column)
    return hashes.view(np.int64)


def _absences(keys: Sequence[pa.Array]) -> pa.Array:
    bits = np.zeros(len(keys[0]), dtype=np.int64)
    for at, column in enumerate(keys):
        bits |= (~is_valid(column)).astype(np.int64) << at
    return pa.array(bits)


def _take_in(hashes: Hashes, column: pa.Array) -> None:
    """Replace every hash with that of its value, with the old hash as seed."""
    data, starts, lengths = _bytes_of(column)
    if len(column) > _FEW and not column.null_count and lengths.min() == lengths.max():
        at, length = int(starts[0]), int(lengths[0])  # they are adjacent
        values = data[at : at + length * len(column)].reshape(len(column), length)
        for begin in range(0, len(column), _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            hashes[rows] = xxh64(values[rows], hashes[rows])
        return
    present = np.flatnonzero(is_valid(column))
    order = present[np.argsort(lengths[present], kind="stable")]
    _, first = np.unique(lengths[order], return_index=True)
    for alike in np.split(order, first[1:]):
        length = lengths[alike[0]] if len(alike) else 0
        if len(alike) > _FEW:
            block = max(1, _BLOCK_BYTES // max(1, length))
            for begin in range(0, len(alike), block):
                some = alike[begin : begin + block]
                places = starts[some, None] + np.arange(length)
                hashes[some] = xxh64(data[places], hashes[some])
            continue
        for row in alike.tolist():
            begin = int(starts[row])
            value = data[begin : begin + int(length)].tobytes()
            hashes[row] = xxhash.xxh64_intdigest(value, int(hashes[row]))


def _bytes_of(
    column: pa.Array,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The bytes of a column, and the start and length of each row's value."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        column = column.cast(pa.large_binary())
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(column.type):
        _, places, values = column.buffers()
        offsets = np.zeros(1, dtype=np.int64)
        if places is not None and places.size:
            offsets = np.frombuffer(places, dtype=np.int64)
        offsets = offsets[column.offset : column.offset + len(column) + 1]
        data = np.frombuffer(values or b"", dtype=np.uint8)
        return data, offsets[:-1], np.diff(offsets)
    is_wide = pa.types.is_int64(kind) or pa.types.is_timestamp(kind)
    plain = to_int64(column).astype("<i8" if is_wide else "<i4")
    lengths = np.full(len(plain), plain.itemsize)
    return plain.view(np.uint8), np.arange(len(plain)) * plain.itemsize, lengths

"""Hashes of keys, the same in Python as Spark SQL's `xxhash64` in the JVM.

Spark's function is standard XXH64 with seed 42, chained over the columns: the hash of one is the
seed of the next, and a null leaves it as it is. Booleans, small integers and dates hash as four
little-endian bytes, long integers and timestamps (microseconds) as eight.

A chain cannot tell (null, a) from (a, null). So keys of several columns are hashed with one long
column more, whose bit i says that column i is null (`idlestate.pipeline.key_hash` in the JVM).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from idlestate.backends.fields import is_valid, to_int64

SEED = 42


def hash_keys(keys: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """64-bit hashes of rows of key columns (63 at most)."""
    seeds = [SEED] * len(keys[0])
    for column in keys if len(keys) == 1 else [*keys, _absences(keys)]:
        seeds = [
            seed if value is None else xxhash.xxh64_intdigest(value, seed)
            for seed, value in zip(seeds, _encoded(column), strict=True)
        ]
    return np.array(seeds, dtype=np.uint64).view(np.int64)


def _absences(keys: Sequence[pa.Array]) -> pa.Array:
    bits = np.zeros(len(keys[0]), dtype=np.int64)
    for at, column in enumerate(keys):
        bits |= (~is_valid(column)).astype(np.int64) << at
    return pa.array(bits)


def _encoded(column: pa.Array) -> list[bytes | None]:
    kind = column.type
    values: list[bytes | None]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = column.cast(pa.binary()).to_pylist()
        return values
    if pa.types.is_binary(kind):
        values = column.to_pylist()
        return values
    is_wide = pa.types.is_int64(kind) or pa.types.is_timestamp(kind)
    plain = to_int64(column).astype("<i8" if is_wide else "<i4")
    width = plain.itemsize
    data = plain.tobytes()
    return [
        data[i * width : (i + 1) * width] if present.as_py() else None
        for i, present in enumerate(column.is_valid())
    ]

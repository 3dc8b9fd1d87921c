"""Keys: equal or not, and distinct keys found once per batch.

A key is one or more columns of strings, binaries, integers, booleans, dates or timestamps, and
its 64-bit hash (`xxhash64` of the columns, seed 42, as Spark SQL computes it). Hashes sort and
find; they never decide: keys behind equal hashes are compared, always. Nulls are equal to nulls.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.fields import is_valid
from idlestate.backends.runs.hash_order import order_by_hash
from idlestate.backends.shards.extremes import order_codes

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Keys = Sequence[pa.Array]


def is_key_type(kind: pa.DataType) -> bool:
    """Whether keys may be of a type: one whose values are equal iff their bytes are."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )


def take_keys(keys: Keys, rows: Ints) -> list[pa.Array]:
    """The keys at these positions."""
    at = pa.array(rows)
    return [column.take(at) for column in keys]


def are_equal(left: Keys, right: Keys) -> Flags:
    """Row by row whether two keys are the same."""
    equal = np.ones(len(left[0]), dtype=bool)
    for a, b in zip(left, right, strict=True):
        same = pc.equal(a, b)
        if a.null_count or b.null_count:
            same = pc.or_(pc.fill_null(same, False), pc.and_(a.is_null(), b.is_null()))
        equal &= same.to_numpy(zero_copy_only=False)
    return equal


@dataclass(frozen=True, slots=True)
class Distinct:
    """Distinct keys in order of hash: the first row of each, each row's key, and every row in order
    of its key, those of one key as they came.
    """

    first: Ints
    key: Ints
    order: Ints


def find_distinct(hashes: Ints, keys: Keys) -> Distinct:
    """Find the distinct keys among rows."""
    n = len(hashes)
    begins = np.ones(n, dtype=bool)
    if (hashes[1:] >= hashes[:-1]).all():  # rows came in order: none needs gathering
        by_hash = np.arange(n)
        begins[1:] = hashes[1:] != hashes[:-1]
        first, key = np.flatnonzero(begins), np.cumsum(begins) - 1
        are_same = _are_equal_to_the_row_before(keys, begins)
    else:
        by_hash = order_by_hash(hashes)
        ordered = hashes[by_hash]
        begins[1:] = ordered[1:] != ordered[:-1]
        first = by_hash[begins]
        key = np.empty(n, dtype=np.int64)
        key[by_hash] = np.cumsum(begins) - 1
        are_same = _are_equal_behind_equal_hashes(keys, first, key)
    if not are_same:
        return _distinct_of_equal_hashes(hashes, keys)
    return Distinct(first, key, by_hash)


def _are_equal_to_the_row_before(keys: Keys, begins: Flags) -> bool:
    """Whether each row that does not begin a hash has the key of the row before it."""
    if begins.all():
        return True
    before = [column.slice(0, len(column) - 1) for column in keys]
    equal = are_equal([column.slice(1) for column in keys], before)
    return bool((equal | begins[1:]).all())


def _are_equal_behind_equal_hashes(keys: Keys, first: Ints, key: Ints) -> bool:
    """Whether each row has the key of the first row with its hash."""
    if 2 * len(first) < len(key):  # most rows: all of them, where they are, need no gathering
        return bool(are_equal(keys, take_keys(keys, first[key])).all())
    is_first = np.zeros(len(key), dtype=bool)
    is_first[first] = True
    others = np.flatnonzero(~is_first)
    return bool(are_equal(take_keys(keys, others), take_keys(keys, first[key[others]])).all())


def _distinct_of_equal_hashes(hashes: Ints, keys: Keys) -> Distinct:
    """The same when different keys share a hash: rows sorted by the key itself too."""
    codes: list[Ints] = []
    for column in keys:
        codes += [
            is_valid(column).astype(np.int64),
            np.where(is_valid(column), order_codes(column), 0),
        ]
    by_key = np.lexsort((*codes, hashes))
    begins = np.zeros(len(hashes), dtype=bool)
    begins[:1] = True
    for column in (hashes, *codes):
        begins[1:] |= column[by_key][1:] != column[by_key][:-1]
    key = np.empty(len(hashes), dtype=np.int64)
    key[by_key] = np.cumsum(begins) - 1
    return Distinct(by_key[begins], key, by_key)

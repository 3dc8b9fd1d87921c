"""Keys: comparison, and the distinct keys of a batch.

A key is one or more columns of strings, binaries, integers, booleans, dates or timestamps, and its
64-bit hash (`xxhash64` of the columns, seed 42, as Spark SQL computes it). Hashes only sort and
find keys: keys with equal hashes are always compared. Nulls are equal to nulls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.fields import is_valid
from idlestate.backends.runs.row_order import order_by_hash
from idlestate.backends.runs.value_order import order_codes

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Keys = Sequence[pa.Array]


def is_key_type(kind: pa.DataType) -> bool:
    """Whether a type is allowed for keys: its values must be equal iff their bytes are."""
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
    """Whether two keys are equal, row by row."""
    columns = []
    for a, b in zip(left, right, strict=True):
        same = pc.equal(a, b)
        if a.null_count or b.null_count:
            same = pc.or_(pc.fill_null(same, False), pc.and_(a.is_null(), b.is_null()))
        columns.append(same)
    equal: Flags = reduce(pc.and_, columns).to_numpy(zero_copy_only=False)
    return equal


@dataclass(frozen=True)
class Distinct:
    """Rows by their distinct keys, which are numbered in order of hash."""

    order: Ints
    """Every row in order of its key; rows of one key keep their order."""
    begins: Flags
    """Which rows in this order are the first of their key."""

    @cached_property
    def _starts(self) -> Ints:
        return np.flatnonzero(self.begins)

    @cached_property
    def first(self) -> Ints:
        """The first row of each key."""
        first: Ints = self.order[self._starts]
        return first

    @cached_property
    def counts(self) -> Ints:
        """The number of rows of each key."""
        return np.diff(self._starts, append=len(self.order))

    @cached_property
    def key(self) -> Ints:
        """Each row's key."""
        key = np.empty(len(self.order), dtype=np.int64)
        key[self.order] = np.cumsum(self.begins) - 1
        return key


def find_distinct(hashes: Ints, keys: Keys) -> Distinct:
    """Find the distinct keys among rows."""
    came_in_order = bool((hashes[1:] >= hashes[:-1]).all())
    order, ordered = (np.arange(len(hashes)), hashes) if came_in_order else order_by_hash(hashes)
    begins = np.ones(len(hashes), dtype=bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    by_hash = Distinct(order, begins)
    have_one_key = _neighbours_have_one_key if came_in_order else _have_one_key
    if begins.all() or have_one_key(by_hash, keys):
        return by_hash
    return _distinct_of_equal_hashes(hashes, keys)


def _neighbours_have_one_key(by_hash: Distinct, keys: Keys) -> bool:
    """Whether rows with equal hashes have equal keys, for sorted rows; gathers no rows."""
    after, before = [c.slice(1) for c in keys], [c.slice(0, len(c) - 1) for c in keys]
    return bool((are_equal(after, before) | by_hash.begins[1:]).all())


def _have_one_key(by_hash: Distinct, keys: Keys) -> bool:
    """Whether all rows with the same hash have the same key, regardless of the order of rows."""
    others = np.flatnonzero(~by_hash.begins)
    if 2 * len(others) < len(by_hash.order):
        before = take_keys(keys, by_hash.order[others - 1])
        return bool(are_equal(take_keys(keys, by_hash.order[others]), before).all())
    # If most rows share a hash, comparing all rows in place needs no gathering.
    return bool(are_equal(keys, take_keys(keys, by_hash.first[by_hash.key])).all())


def _distinct_of_equal_hashes(hashes: Ints, keys: Keys) -> Distinct:
    """The distinct keys if different keys share a hash: rows are also sorted by the key."""
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
    return Distinct(by_key, begins)

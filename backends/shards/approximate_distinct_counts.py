"""approx_count_distinct: the number of distinct values of a column, from a sketch of bounded size.

HyperLogLog over 64-bit hashes: the first bits of a hash choose a register, and the register keeps
the longest run of zeros seen after them. Only non-empty registers are stored, as a list, so a small
number of values takes few bytes. Merging two registers keeps the larger one, so the order of merges
does not matter. The estimate follows Ertl, "New cardinality estimation algorithms for HyperLogLog
sketches", 2017: it is unbiased for small and large counts.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, is_valid
from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.runs.value_order import order_codes
from idlestate.backends.shards.packed_lists import ItemPart, PackedLists

Ints = npt.NDArray[np.int64]
_RUN_BITS = 6
"""An item is a register and its run of zeros, which takes this many bits."""
_TERMS = 32
"""After this many terms, the series of an estimate no longer change the result."""
_ITEMS = PackedLists((ItemPart(pa.int32()),))


@dataclass(frozen=True, slots=True)
class ApproxDistinct:
    """The estimated number of distinct values, with relative standard deviation `rsd`."""

    column: str
    rsd: float
    result_type: pa.DataType = pa.int64()

    field_types = _ITEMS.field_types

    @property
    def _bits(self) -> int:
        """The number of bits that choose a register, as in Spark."""
        return max(4, math.ceil(2 * math.log2(1.106 / self.rsd)))

    def lift(self, values: dict[str, pa.Array], is_write: npt.NDArray[np.bool_]) -> list[Field]:
        """One register per record; none for nulls and reads."""
        array = values[self.column]
        counted = is_write & is_valid(array)
        hashes = hash_keys([hashable(array)]).view(np.uint64)[counted]
        register = hashes >> np.uint64(64 - self._bits)
        # An additional last bit bounds the length of a run.
        rest = (hashes << np.uint64(self._bits)) | np.uint64(1 << (self._bits - 1))
        run = 64 - _bit_lengths(rest) + 1
        items = (register.astype(np.int64) << _RUN_BITS) | run
        return _ITEMS.pack([pa.array(items.astype(np.int32))], counted)

    def reduce(self, fields: list[Field], starts: Ints) -> list[Field]:
        """The registers of each segment, in order."""
        (packed,), segment = _ITEMS.unpack_segments(fields, starts)
        items = (segment << 32) | packed.to_numpy()
        items.sort()
        register = items >> _RUN_BITS
        is_last = np.ones(len(items), dtype=bool)
        is_last[:-1] = register[1:] != register[:-1]
        items = items[is_last]
        sizes = np.bincount(items >> 32, minlength=len(starts))
        return _ITEMS.pack([pa.array((items & 0xFFFFFFFF).astype(np.int32))], sizes)

    def result(self, fields: list[Field]) -> pa.Array:
        """0 where nothing was counted."""
        (items,), sizes = _ITEMS.unpack(fields)
        runs = items.to_numpy().astype(np.int64) & ((1 << _RUN_BITS) - 1)
        registers, longest = 1 << self._bits, 64 - self._bits + 1
        sketch = np.repeat(np.arange(len(sizes)), sizes)
        counts = np.bincount(sketch * (longest + 1) + runs, minlength=len(sizes) * (longest + 1))
        shares = counts.reshape(len(sizes), longest + 1) / registers
        total = _tau(1 - shares[:, longest])
        for run in range(longest - 1, 0, -1):
            total = (total + shares[:, run]) / 2
        with np.errstate(divide="ignore"):
            total = total + _sigma(1 - sizes / registers)
            estimates = registers / (2 * math.log(2)) / total
        return pa.array(np.rint(estimates).astype(np.int64))


def hashable(array: pa.Array) -> pa.Array:
    """Values cast to a type that key hashing supports. Equal values stay equal, even after an
    integer or float column was widened.
    """
    if pa.types.is_floating(array.type):
        return pa.array(order_codes(array))
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64())
    if pa.types.is_decimal(array.type):
        return array.view(pa.binary(16)).cast(pa.binary())
    return array


def _bit_lengths(numbers: npt.NDArray[np.uint64]) -> Ints:
    high = (numbers >> np.uint64(32)).astype(np.float64)
    low = (numbers & np.uint64(0xFFFFFFFF)).astype(np.float64)
    lengths: Ints = np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1]).astype(np.int64)
    return lengths


def _sigma(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The sum x + x**2 + 2 x**4 + 4 x**8 + ...; infinite at 1."""
    found, factor, power = x.copy(), 1.0, x
    for _ in range(_TERMS):
        power = power * power
        found, factor = found + power * factor, factor * 2
    return np.where(x == 1, np.inf, found)


def _tau(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The sum (1 - x - (1 - x**(1/2))**2 / 2 - (1 - x**(1/4))**2 / 4 - ...) / 3."""
    found, factor, root = 1 - x, 1.0, x
    for _ in range(_TERMS):
        root, factor = np.sqrt(root), factor / 2
        found = found - (1 - root) ** 2 * factor
    return found / 3

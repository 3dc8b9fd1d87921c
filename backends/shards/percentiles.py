"""approx_percentile: counts per bin of values, with a known relative error.

A bin contains the doubles with the same sign, exponent and first fraction bits. There are 2**bits
bins from one power of two to the next, each at most 2**-bits of its lower bound wide. The middle of
a bin is off by at most 2**-(bits + 1) of a value in it. Bins are fixed, so counts can be added in
any order; finding the bin of a value needs no logarithm.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, is_valid
from idlestate.backends.runs.value_order import order_codes
from idlestate.backends.shards.packed_lists import ItemPart, PackedLists

Ints = npt.NDArray[np.int64]
_FRACTION_BITS = 52
_BINS = PackedLists((ItemPart(pa.int64()), ItemPart(pa.int64())))


@dataclass(frozen=True, slots=True)
class ApproxPercentile:
    """The value at or below which the share `p` of the values lies. Fields: bins and their
    counts.
    """

    column: str
    p: float
    accuracy: int
    """The inverse of the allowed relative error."""
    result_type: pa.DataType

    field_types = _BINS.field_types

    @property
    def _shift(self) -> int:
        bits = max(0, (self.accuracy - 1).bit_length() - 1)
        return _FRACTION_BITS - bits

    def lift(self, values: dict[str, pa.Array], is_write: npt.NDArray[np.bool_]) -> list[Field]:
        """One bin with one value per record; none for nulls and reads."""
        array = values[self.column]
        counted = is_write & is_valid(array)
        codes = order_codes(array.cast(pa.float64(), safe=False))[counted]
        ones = np.ones(len(codes), dtype=np.int64)
        return _BINS.pack([pa.array(codes >> self._shift), pa.array(ones)], counted)

    def reduce(self, fields: list[Field], starts: Ints) -> list[Field]:
        """The counts of each segment, bins in order."""
        (bins, counts), segment = _BINS.unpack_segments(fields, starts)
        bins, counts = bins.to_numpy(), counts.to_numpy()
        if len(bins):
            order = np.lexsort((bins, segment))
            bins, segment = bins[order], segment[order]
            begins = np.ones(len(bins), dtype=bool)
            begins[1:] = (bins[1:] != bins[:-1]) | (segment[1:] != segment[:-1])
            first = np.flatnonzero(begins)
            bins, segment = bins[first], segment[first]
            counts = np.add.reduceat(counts[order], first)
        sizes = np.bincount(segment, minlength=len(starts))
        return _BINS.pack([pa.array(bins), pa.array(counts)], sizes)

    def result(self, fields: list[Field]) -> pa.Array:
        """Null where nothing was counted."""
        (bins, counts), sizes = _BINS.unpack(fields)
        upto = np.concatenate(([0], np.cumsum(counts.to_numpy())))
        ends = np.cumsum(sizes)
        before, total = upto[ends - sizes], upto[ends] - upto[ends - sizes]
        rank = np.clip(np.ceil(self.p * total), 1, np.maximum(total, 1)).astype(np.int64)
        at = np.searchsorted(upto, before + rank) - 1
        is_empty = sizes == 0
        found = np.zeros(len(sizes))
        found[~is_empty] = self._middles(bins.to_numpy()[at[~is_empty]])
        if pa.types.is_integer(self.result_type):
            return pa.array(self._whole(found), self.result_type, mask=is_empty)
        return pa.array(found, mask=is_empty).cast(self.result_type)

    def _middles(self, bins: Ints) -> npt.NDArray[np.float64]:
        """The middle double of each bin; for zero, infinity and NaN, the value itself."""
        size = np.where(bins < 0, -1 - bins, bins)
        lower = size << self._shift
        middle = (lower | np.int64(1 << (self._shift - 1))).view(np.float64)
        bound = lower.view(np.float64)
        magnitude = np.where((size == 0) | np.isinf(bound), bound, middle)
        return np.where(bins < 0, -magnitude, magnitude) + 0.0

    def _whole(self, found: npt.NDArray[np.float64]) -> Ints:
        """Truncated to an integer, which stays in the same bin, because wide bins have integer
        bounds.
        """
        limits = np.iinfo(self.result_type.to_pandas_dtype())
        too_small, too_large = found <= float(limits.min), found >= float(limits.max)
        whole = np.where(too_small | too_large, 0.0, found).astype(np.int64)
        return np.where(too_large, limits.max, np.where(too_small, limits.min, whole))

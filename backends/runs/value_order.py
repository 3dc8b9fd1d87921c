"""Converts values to numbers with the same order, so that numpy can sort any column."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.fields import is_valid, to_int64

Ints = npt.NDArray[np.int64]


def order_codes(array: pa.Array) -> Ints:
    """Numbers with the same order as the values; nulls get any number."""
    kind = array.type
    codes: Ints
    if pa.types.is_floating(kind):
        plain = array.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64)
        plain = np.where(np.isnan(plain), np.nan, plain) + 0.0
        bits = plain.view(np.int64)
        codes = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
        codes[np.isnan(plain)] = np.iinfo(np.int64).max
        return codes
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        return to_int64(array)
    ranks = pc.rank(array, sort_keys="ascending", tiebreaker="dense")
    codes = ranks.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def order_keys(column: pa.Array) -> list[Ints]:
    """Arrays that, compared one after the other, have the order of the values, with nulls first."""
    if not column.null_count:
        return [order_codes(column)]
    present = is_valid(column)
    return [present.astype(np.int64), np.where(present, order_codes(column), 0)]

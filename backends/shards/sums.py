"""Sums, averages and counts per segment: exact for integers and decimals, compensated for floats.

Integers and decimals are carried in 128 bits as (high int64, low uint64), value = high * 2**64 +
low, so no running sum can wrap; a result that does not fit its type is an error, as in Spark's ANSI
mode. Floats are carried as an unevaluated pair (sum, error) and added by Knuth's two-sum in a tree,
so the order of additions does not affect the first 12 digits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, is_valid, to_int64
from idlestate.backends.shards.double_double import two_sum
from idlestate.errors import RefusedError

_LOW_32 = np.uint64(0xFFFFFFFF)
_SHIFT_32 = np.uint64(32)
Ints = npt.NDArray[np.int64]


class SumOverflowError(RefusedError, ArithmeticError):
    """A sum does not fit its result type: aggregate a wider type, or fewer rows."""


def compensated_sums(
    total: npt.NDArray[np.float64], error: npt.NDArray[np.float64], starts: Ints
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Sums per segment and their errors: adjacent values are added until each segment has one
    left.
    """
    size = np.diff(np.append(starts, len(total)))
    total, error = total[starts[0] :], error[starts[0] :]
    with np.errstate(invalid="ignore", over="ignore"):
        while len(total) > len(size):
            begin = np.cumsum(size) - size
            place = np.arange(len(total)) - np.repeat(begin, size)
            left = np.flatnonzero(place % 2 == 0)
            paired = place[left] + 1 < np.repeat(size, size)[left]
            a, b = left[paired], left[paired] + 1
            added, lost = two_sum(total[a], total[b])
            lost = np.where(np.isfinite(added), lost + error[a] + error[b], 0.0)
            total[a], error[a] = added, lost
            total, error = total[left], error[left]
            size = (size + 1) // 2
    return total, error


@dataclass(frozen=True, slots=True)
class Count:
    """count: rows, or rows with a value of one column. One int64 field."""

    column: str | None
    result_type: pa.DataType = pa.int64()

    field_types: tuple[None, ...] = (None,)

    def lift(self, values: dict[str, pa.Array], is_write: npt.NDArray[np.bool_]) -> list[Field]:
        """One count per record: 1 for a write with a value, else 0."""
        counted = is_write if self.column is None else is_write & is_valid(values[self.column])
        return [counted.astype(np.int64)]

    def reduce(self, fields: list[Field], starts: Ints) -> list[Field]:
        """Counts per segment."""
        return [np.add.reduceat(fields[0], starts)]

    def result(self, fields: list[Field]) -> pa.Array:
        """The count."""
        return pa.array(fields[0])


@dataclass(frozen=True, slots=True)
class ExactSum:
    """sum or avg of integers or decimals. Fields: high int64, low uint64, values counted int64."""

    column: str
    result_type: pa.DataType
    scale: int | None
    """Digits after the point of a decimal input; None for integers."""
    average: bool

    field_types: tuple[None, ...] = (None, None, None)

    def lift(self, values: dict[str, pa.Array], is_write: npt.NDArray[np.bool_]) -> list[Field]:
        """The records' values in 128 bits; 0 counted 0 times for nulls and reads."""
        array = values[self.column]
        counted = is_write & is_valid(array)
        if self.scale is None:
            low = np.where(counted, to_int64(array), 0)
            return [low >> 63, low.view(np.uint64), counted.astype(np.int64)]
        data = array.buffers()[1] if len(array) else b""
        halves = np.frombuffer(data, dtype=np.uint64)
        halves = halves[2 * array.offset : 2 * (array.offset + len(array))]
        low, high = np.where(counted, halves[0::2], 0), np.where(counted, halves[1::2], 0)
        return [high.view(np.int64), low, counted.astype(np.int64)]

    def reduce(self, fields: list[Field], starts: Ints) -> list[Field]:
        """Sums per segment, with carries between 32-bit limbs (exact below 2**31 rows).

        Raises:
            SumOverflowError: a sum of decimals leaves 128 bits.
        """
        high, low, counted = (np.asarray(field) for field in fields)
        if self.scale is not None:
            # A wrapped sum differs by more than float precision, or is refused as a result.
            about = np.add.reduceat(high.astype(np.float64), starts)
            if (np.abs(about) >= 2.0**63).any():
                raise self._too_wide()
        limb_0 = np.add.reduceat(low & _LOW_32, starts)
        limb_1 = np.add.reduceat(low >> _SHIFT_32, starts) + (limb_0 >> _SHIFT_32)
        carry = (limb_1 >> _SHIFT_32).astype(np.int64)
        return [
            np.add.reduceat(high, starts) + carry,
            (limb_1 << _SHIFT_32) | (limb_0 & _LOW_32),
            np.add.reduceat(counted, starts),
        ]

    def result(self, fields: list[Field]) -> pa.Array:
        """Null where nothing was counted.

        Raises:
            SumOverflowError: a sum is outside the result type.
        """
        high, low, counted = (np.asarray(field) for field in fields)
        empty = counted == 0
        fits = high == (low.view(np.int64) >> 63)
        if self.scale is not None:
            return self._decimal(high, low, counted, empty)
        if self.average:
            total = np.where(fits, low.view(np.int64), high * 2.0**64 + low)
            return pa.array(total / np.maximum(counted, 1), mask=empty)
        if not fits.all():
            raise SumOverflowError(
                f"sum({self.column}) does not fit a 64-bit integer; "
                f"cast {self.column} to a decimal before it reaches retain"
            )
        return pa.array(low.view(np.int64), mask=empty)

    def _decimal(self, high: Any, low: Any, counted: Any, empty: Any) -> pa.Array:
        limit = 10**self.result_type.precision
        if self.average:
            # Integer arithmetic on whole columns: scale up, divide, round half away from zero.
            total = (high.astype(object) << 64) + low.astype(object)
            total *= 10 ** (self.result_type.scale - (self.scale or 0))
            divisor = np.maximum(counted, 1).astype(object)
            half_up = (2 * np.abs(total) + divisor) // (2 * divisor)
            units = np.clip(half_up * np.where(total < 0, -1, 1), -limit, limit)
            high = (units >> 64).astype(np.int64)
            low = (units & (2**64 - 1)).astype(np.uint64)
        top, rest = np.int64(limit >> 64), np.uint64(limit & (2**64 - 1))
        low_limit = -limit
        bottom, below = np.int64(low_limit >> 64), np.uint64(low_limit & (2**64 - 1))
        too_big = (high > top) | ((high == top) & (low >= rest))
        too_small = (high < bottom) | ((high == bottom) & (low <= below))
        if (too_big | too_small).any():
            raise self._too_wide()
        halves = np.empty(2 * len(low), dtype=np.uint64)
        halves[0::2], halves[1::2] = low, high.view(np.uint64)
        valid = pa.array(~empty).buffers()[1]
        return pa.Array.from_buffers(self.result_type, len(low), [valid, pa.py_buffer(halves)])

    def _too_wide(self) -> SumOverflowError:
        word = "avg" if self.average else "sum"
        return SumOverflowError(
            f"{word}({self.column}) does not fit {self.result_type}; "
            f"cast {self.column} to fewer digits before it reaches retain"
        )


@dataclass(frozen=True, slots=True)
class FloatSum:
    """sum or avg of floats. Fields: sum float64, error float64, values counted int64."""

    column: str
    average: bool
    result_type: pa.DataType = pa.float64()

    field_types: tuple[None, ...] = (None, None, None)

    def lift(self, values: dict[str, pa.Array], is_write: npt.NDArray[np.bool_]) -> list[Field]:
        """The records' values; 0.0 counted 0 times for nulls and reads."""
        array = values[self.column]
        counted = is_write & is_valid(array)
        plain = array.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64)
        total = np.where(counted, plain, 0.0)
        return [total, np.zeros(len(total)), counted.astype(np.int64)]

    def reduce(self, fields: list[Field], starts: Ints) -> list[Field]:
        """Compensated sums per segment."""
        total, error, counted = (np.asarray(field) for field in fields)
        total, error = compensated_sums(total, error, starts)
        counted = np.add.reduceat(counted, starts)
        return [total, error, counted]

    def result(self, fields: list[Field]) -> pa.Array:
        """Null where nothing was counted."""
        total, error, counted = (np.asarray(field) for field in fields)
        with np.errstate(invalid="ignore", over="ignore"):
            value = total + error
            if self.average:
                value = value / np.maximum(counted, 1)
        return pa.array(value, mask=counted == 0)

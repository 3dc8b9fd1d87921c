"""Variances and standard deviations per segment: numerically stable in any order of records.

An accumulator consists of the count, the smallest value, and the sums of the differences from it
and of their squares, as pairs of doubles (`double_double`). A difference is never negative, so no
precision is lost to cancellation when accumulators are shifted to a common smallest value and
added; the variance itself loses at most a factor of the count. With 32 digits, the order of records
affects at most the last bit of a result.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, is_valid
from idlestate.backends.shards.double_double import Doubles, add, divide, multiply, two_sum
from idlestate.backends.shards.sums import compensated_sums

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Variance:
    """stddev, stddev_pop, variance or var_pop of numbers as doubles, as in Spark.

    Fields: values counted int64; float64 smallest value, sum of the differences from it and its
    error, sum of their squares and its error.
    """

    column: str
    is_sample: bool
    """Whether to divide by the count minus one."""
    is_deviation: bool
    """Whether to return the square root of the variance."""
    result_type: pa.DataType = pa.float64()

    field_types: tuple[None, ...] = (None,) * 6

    def lift(self, values: dict[str, pa.Array], is_write: npt.NDArray[np.bool_]) -> list[Field]:
        """The records' values, each as its own smallest value; nulls and reads count 0 times."""
        array = values[self.column]
        counted = is_write & is_valid(array)
        plain = array.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)
        least = np.where(counted, plain + 0.0, np.inf)
        return [counted.astype(np.int64), least, *np.zeros((4, len(least)))]

    def reduce(self, fields: list[Field], starts: Ints) -> list[Field]:
        """The sums of each segment, about its smallest value."""
        counted, least, *sums = (np.asarray(field)[starts[0] :] for field in fields)
        begin = starts - starts[0]
        smallest = np.minimum.reduceat(least, begin)
        count = np.add.reduceat(counted, begin)
        with np.errstate(all="ignore"):
            by = two_sum(least, -np.repeat(smallest, np.diff(np.append(begin, len(least)))))
            moves = (counted > 0) & (by[0] != 0)
            if moves.any():
                rows = [each[moves] for each in (counted.astype(np.float64), *by, *sums)]
                for field, moved in zip(sums, _about_less(*rows), strict=True):
                    field[moves] = moved
        return [
            count,
            smallest,
            *compensated_sums(sums[0], sums[1], begin),
            *compensated_sums(sums[2], sums[3], begin),
        ]

    def result(self, fields: list[Field]) -> pa.Array:
        """Null where nothing was counted, or only one value of a sample; NaN where a value is not
        finite or the squares overflow.
        """
        counted, _, *sums = (np.asarray(field) for field in fields)
        divisor = counted - self.is_sample
        with np.errstate(all="ignore"):
            total, squares = two_sum(sums[0], sums[1]), two_sum(sums[2], sums[3])
            mean_part = divide(multiply(total, total), counted.astype(np.float64))
            found = add(squares, (-mean_part[0], -mean_part[1]))[0] / divisor
            found = np.where(np.isfinite(found), np.maximum(found, 0.0), np.nan)
            if self.is_deviation:
                found = np.sqrt(found)
        return pa.array(found, mask=divisor < 1)


def _about_less(
    counted: Doubles,
    by: Doubles,
    by_low: Doubles,
    total: Doubles,
    total_low: Doubles,
    squares: Doubles,
    squares_low: Doubles,
) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """The sums about a value that is smaller by this much: with s' = s + n by, q' = q + by (s +
    s').
    """
    before = total, total_low
    after = add(before, multiply((counted, np.zeros(len(counted))), (by, by_low)))
    grown = multiply((by, by_low), add(before, after))
    return *after, *add((squares, squares_low), grown)

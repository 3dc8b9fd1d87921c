"""Searching a sorted column of a file without reading all of it.

Every 512th value, the *fences*, is kept apart from the column. Between two fences a binary search
stays within some 4 KB, where one over the whole column would read a page for each of its steps.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.reading import Ints, Reading, Touch

STRIDE = 512
_HALVES = [STRIDE >> shift for shift in range(1, STRIDE.bit_length())]
Sorted = npt.NDArray[Any]


def fences_of(values: Sorted) -> Sorted:
    """The fences of ascending values."""
    return values[::STRIDE].copy()


def first_at_least(values: Sorted, fences: Sorted, wanted: Ints) -> Reading[Ints]:
    """For each wanted value the first place with it or a higher one; `len(values)` if none."""
    if not len(values) or len(wanted) * STRIDE > len(values):
        yield [Touch.span(values, 0, len(values))]
        places: Ints = np.searchsorted(values, wanted)
        return places
    # The last fence below the wanted value is before its place, the next is not.
    begins = np.maximum(np.searchsorted(fences, wanted) - 1, 0) * STRIDE
    last = len(values) - 1
    yield [Touch(values, begins, np.minimum(begins + STRIDE, last) + 1)]
    at: Ints = begins
    for half in (*_HALVES, 1):
        is_below = values[np.minimum(at + (half - 1), last)] < wanted
        at = at + np.where(is_below, half, 0)
    found: Ints = np.minimum(at, len(values))
    return found

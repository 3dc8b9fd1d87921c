"""Searches sorted values in a file without reading all of them.

Some of the values, the *fences*, are stored separately, so a search reads only the values between
two of them: about a block, while a binary search over all values would read a page per step.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.byte_source import Ints


def between_fences(
    fences: npt.NDArray[Any], places: Ints, end: int, wanted: npt.NDArray[Any]
) -> tuple[Ints, Ints]:
    """For each wanted value, the span of positions that contains its position.

    The first position with this or a higher value is in the span or at its end.

    Args:
        fences: ascending values.
        places: their positions among all values; the first fence is the first value.
        end: the position after the last value.
        wanted: the values to search for.
    """
    # The last fence below the wanted value is before its position, and the next fence is not.
    following = np.searchsorted(fences, wanted)
    begins = places[np.maximum(following - 1, 0)]
    stops = np.append(places, end)[following]
    return begins, np.maximum(begins, stops)


def first_at_least(
    values: npt.NDArray[Any], begins: Ints, stops: Ints, wanted: npt.NDArray[Any]
) -> Ints:
    """For each wanted value, the first position in its span with this or a higher value, or the
    span's end.

    Args:
        values: ascending within each span.
        begins, stops: the spans.
        wanted: a value per span.
    """
    last = len(values) - 1
    for _ in range(int((stops - begins).max(initial=0)).bit_length()):
        middle = (begins + stops) >> 1
        is_below = (values[np.minimum(middle, last)] < wanted) & (middle < stops)
        begins = np.where(is_below, middle + 1, begins)
        stops = np.where(is_below, stops, middle)
    return begins

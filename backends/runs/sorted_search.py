"""Searching sorted values of a file without reading all of them.

Some of the values, the *fences*, are kept apart, so that a search reads only what lies between two
of them: a block or so, where a binary search over all values would read a page for each step.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.byte_source import Ints


def between_fences(
    fences: npt.NDArray[Any], places: Ints, end: int, wanted: npt.NDArray[Any]
) -> tuple[Ints, Ints]:
    """For each wanted value the span of places before which its own place must be.

    The first place with the value or a higher one is in the span or at its end.

    Args:
        fences: ascending values.
        places: where they stand among all values; the first stands at the first place.
        end: the place after the last value.
        wanted: the values looked for.
    """
    # The last fence below the wanted value is before its place, the next one is not.
    following = np.searchsorted(fences, wanted)
    begins = places[np.maximum(following - 1, 0)]
    stops = np.append(places, end)[following]
    return begins, np.maximum(begins, stops)


def first_at_least(
    values: npt.NDArray[Any], begins: Ints, stops: Ints, wanted: npt.NDArray[Any]
) -> Ints:
    """For each wanted value the first place with it or a higher one in its span; its end if none.

    Args:
        values: ascending within each span.
        begins, stops: the spans.
        wanted: a value for each.
    """
    last = len(values) - 1
    for _ in range(int((stops - begins).max(initial=0)).bit_length()):
        middle = (begins + stops) >> 1
        is_below = (values[np.minimum(middle, last)] < wanted) & (middle < stops)
        begins = np.where(is_below, middle + 1, begins)
        stops = np.where(is_below, stops, middle)
    return begins

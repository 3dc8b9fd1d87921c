"""Aggregates of overlapping ranges of rows, such as the ten rows up to each row."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.fields import Field, join, take

Ints = npt.NDArray[np.int64]


def of_ranges(
    fields: list[Field],
    combined: Callable[[list[Field], Ints], list[Field]],
    place: Ints,
    lasts: Ints,
    sizes: Ints,
) -> list[Field]:
    """The accumulators of ranges of rows, in about log2(size) steps for each row.

    A range is combined from its end in blocks of 1, 2, 4, ... rows, according to the bits of its
    size, so a result depends only on the range's rows.

    Args:
        fields: accumulators of single rows.
        combined: merges the accumulators from each start to the next into one.
        place: the number of earlier rows in each row's segment.
        lasts: the last row of each range.
        sizes: the number of rows in each range, at least one, all in one segment.
    """
    parts, owners = [], []
    most = int(sizes.max(initial=1))
    ends, at = lasts.copy(), np.arange(len(place))
    blocks, length = fields, 1
    while True:
        chosen = np.flatnonzero(sizes & length)
        owners.append(chosen)
        parts.append([take(field, at[ends[chosen]]) for field in blocks])
        ends[chosen] -= length
        if 2 * length > most:
            break
        # Each row with enough rows before it becomes the end of a block of twice the length.
        further = np.flatnonzero(place >= 2 * length - 1)
        pairs = np.stack([at[further - length], at[further]], axis=1).ravel()
        blocks = combined([take(field, pairs) for field in blocks], np.arange(0, len(pairs), 2))
        at[further] = np.arange(len(further))
        length *= 2
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(len(sizes)))
    return combined([take(join(pieces), order) for pieces in zip(*parts, strict=True)], starts)

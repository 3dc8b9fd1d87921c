"""The order of rows by hash.

Hashes are spread evenly, so their upper bits sort nearly all of them. The row's number takes the
place of the lower bits: such numbers are sorted as they are, which numpy does several times faster
than it finds the order of others.
"""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_FEW_RUNS = 16
"""So many ascending stretches are merged faster than all rows are sorted anew."""
_FEW_TIES = 1_000
"""So many rows out of order behind equal upper bits are put in order where they are. Hashes that
are spread evenly have hardly any."""


def order_by_hash(hashes: Ints) -> tuple[Ints, Ints]:
    """Positions of rows in order of hash, rows of one hash as they came, and the sorted hashes."""
    if np.count_nonzero(hashes[1:] < hashes[:-1]) < _FEW_RUNS:
        return _sorted(hashes)
    row_bits = len(hashes).bit_length()
    rows = (1 << row_bits) - 1
    order = hashes & ~rows
    order |= np.arange(len(hashes))
    order.sort()
    order &= rows
    ordered = hashes[order]
    wrong = np.flatnonzero(ordered[1:] < ordered[:-1])
    if len(wrong) > _FEW_TIES:
        return _sorted(hashes)
    upper = ordered >> row_bits
    ties = np.unique(upper[wrong])
    firsts, stops = (np.searchsorted(upper, ties, side) for side in ("left", "right"))
    for first, stop in zip(firsts, stops, strict=True):
        within, ordered[first:stop] = _sorted(ordered[first:stop])
        order[first:stop] = order[first:stop][within]
    return order, ordered


def _sorted(hashes: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(hashes, kind="stable")
    return order, hashes[order]

"""The order of rows by hash.

Hashes are spread evenly, so their upper halves sort nearly all of them. Sixteen bits at a time
numpy counts instead of comparing, which is several times faster, most of all where few keys have
many rows.
"""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_FEW_RUNS = 16
"""So many ascending stretches are merged faster than all rows are sorted anew."""
_FEW_TIES = 1_000
"""So many rows out of order behind equal upper halves are put in order where they are. Two million
hashes, spread evenly, have some 230."""
_HALF, _DIGIT = 32, np.uint32(16)
_SIGN = np.uint32(1 << 31)


def order_by_hash(hashes: Ints) -> Ints:
    """Positions of rows in order of hash; rows of one hash stay as they came."""
    if np.count_nonzero(hashes[1:] < hashes[:-1]) < _FEW_RUNS:
        return np.argsort(hashes, kind="stable")
    upper = (hashes >> _HALF).astype(np.uint32) ^ _SIGN
    order = np.argsort(upper.astype(np.uint16), kind="stable")
    order = order[np.argsort((upper >> _DIGIT).astype(np.uint16)[order], kind="stable")]
    ordered = hashes[order]
    wrong = np.flatnonzero(ordered[1:] < ordered[:-1])
    if len(wrong) > _FEW_TIES:
        return np.argsort(hashes, kind="stable")
    halves = ordered >> _HALF
    ties = np.unique(halves[wrong])
    firsts, stops = (np.searchsorted(halves, ties, side) for side in ("left", "right"))
    for first, stop in zip(firsts, stops, strict=True):
        order[first:stop] = order[first:stop][np.argsort(ordered[first:stop], kind="stable")]
    return order

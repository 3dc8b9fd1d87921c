"""The order of rows by their hashes, or by other numbers.

Each row's position is put into the lower bits of its number, and the numbers are sorted, because
numpy's `sort` is several times faster than `argsort`. Hashes have no spare bits, but they are
evenly distributed, so their upper bits sort nearly all of them.
"""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_FEW_RUNS = 16
"""Up to this many ascending sequences are merged faster than all rows are sorted."""
_FEW_TIES = 1_000
"""Up to this many unsorted rows with equal upper bits are sorted in place. Evenly distributed
hashes have hardly any.
"""


def order_of(numbers: Ints, bits: int) -> Ints:
    """Positions of numbers from 0 to 2**bits - 1 in ascending order; the sort is stable."""
    if bits + len(numbers).bit_length() > 63 or _has_few_runs(numbers):
        return np.argsort(numbers, kind="stable")
    return _sorted_rows(numbers << len(numbers).bit_length())


def order_by_hash(hashes: Ints) -> tuple[Ints, Ints]:
    """Positions of rows in stable order of hash, and the sorted hashes."""
    if _has_few_runs(hashes):
        return _sorted(hashes)
    row_bits = len(hashes).bit_length()
    order = _sorted_rows(hashes >> row_bits << row_bits)
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


def _has_few_runs(numbers: Ints) -> bool:
    return int(np.count_nonzero(numbers[1:] < numbers[:-1])) < _FEW_RUNS


def _sorted_rows(numbers: Ints) -> Ints:
    """Positions in order of numbers whose lower bits are free for them; overwrites the numbers."""
    numbers |= np.arange(len(numbers))
    numbers.sort()
    numbers &= (1 << len(numbers).bit_length()) - 1
    return numbers


def _sorted(hashes: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(hashes, kind="stable")
    return order, hashes[order]

"""Places of entries: lists and maps too large for the row of their key have a row per entry.

The place of such a row in its runs consists of the number of a range and some bits of the entry's
hash. So a look-up finds one entry, and the entries of a key form one range. Different keys may
share a range.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import Runs

ENTRY_BITS: Final = 22
_LAST: Final = (1 << ENTRY_BITS) - 2
"""The last place of a range, counted from its first one."""


def upper_bits(values: pa.Array, bits: int) -> Positions:
    """This many bits of the hash of each value."""
    found: Positions = (hash_keys([values]).view(np.uint64) >> np.uint64(64 - bits)).view(np.int64)
    return found


def places_in(ranges: Positions, bits: Positions) -> Positions:
    """The places of entries with these `ENTRY_BITS` bits in ranges."""
    found: Positions = ranges << ENTRY_BITS | np.minimum(bits, _LAST)
    return found


def ranges_at(places: Positions) -> Positions:
    """The numbers of the ranges of places."""
    found: Positions = places >> ENTRY_BITS
    return found


def stored_in(runs: Runs, ranges: Positions) -> tuple[Positions, Rows]:
    """The rows of runs in ranges, and their positions."""
    begins = np.unique(ranges) << ENTRY_BITS
    return runs.between(begins, begins | _LAST)

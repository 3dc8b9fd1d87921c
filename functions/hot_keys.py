"""Hot keys of a batch: a function that has both forms is given them one by one."""

import numpy as np

from idlestate.functions.batched_columns import Flags, Ints

WAVE_COST = 100
"""A call costs as much as so many records in the form of one key (measured: about 100)."""


def hot_keys(counts: Ints, inputs: int) -> Flags:
    """The keys with so many more records than others that waves of them alone do not pay.

    Args:
        counts: how many records each key has.
        inputs: of how many inputs: a wave is a call for each.
    """
    longest = np.sort(counts)
    rest = np.concatenate([np.cumsum(longest[::-1])[::-1], [0]])
    # Waves up to a number of records, and one by one the keys that have more.
    waves = np.concatenate([[0], longest])
    best = int(np.argmin(waves * (WAVE_COST * inputs) + rest))
    hot: Flags = counts > waves[best]
    return hot

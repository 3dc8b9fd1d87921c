"""Hot keys of a batch, with which a function that has both forms is called one by one."""

import numpy as np

from idlestate.functions.batched_columns import Flags, Ints

WAVE_COST = 100
"""A batched call costs as much as this many records in the one-key form (measured: about 100)."""


def hot_keys(counts: Ints, inputs: int) -> Flags:
    """The keys with so many more records than others that waves of only these do not pay off.

    Args:
        counts: the number of each key's records.
        inputs: the number of inputs: a wave is a call per input.
    """
    longest = np.sort(counts)
    rest = np.concatenate([np.cumsum(longest[::-1])[::-1], [0]])
    # Waves cover up to a number of records per key; keys with more are called one by one.
    waves = np.concatenate([[0], longest])
    best = int(np.argmin(waves * (WAVE_COST * inputs) + rest))
    hot: Flags = counts > waves[best]
    return hot

"""Shards are contiguous ranges of the 64-bit key hash: `floor((hash + 2**63) * shards / 2**64)`.

So slicing divides a batch sorted by hash into shards.
"""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def first_hashes(shards: int) -> Ints:
    """The lowest hash of each shard."""
    edges = [-(-(i << 64) // shards) - (1 << 63) for i in range(shards)]
    return np.array(edges, dtype=np.int64)


def shard_bounds(hashes: Ints, shards: int) -> Ints:
    """The bounds of shards in ascending hashes: shard i is rows bounds[i]..bounds[i + 1]."""
    inner = np.searchsorted(hashes, first_hashes(shards)[1:])
    return np.concatenate([[0], inner, [len(hashes)]]).astype(np.int64)

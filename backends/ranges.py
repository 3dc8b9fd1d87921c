"""Shards are contiguous ranges of the 64-bit key hash: `floor((hash + 2**63) * shards / 2**64)`.

A batch sorted by hash is therefore cut into shards by slicing.
"""

import numpy as np
import numpy.typing as npt


def shard_bounds(hashes: npt.NDArray[np.int64], shards: int) -> npt.NDArray[np.int64]:
    """Where ascending hashes are cut into shards: shard i is rows bounds[i]..bounds[i + 1]."""
    edges = [-(-(i << 64) // shards) - (1 << 63) for i in range(1, shards)]
    inner = np.searchsorted(hashes, np.array(edges, dtype=np.int64))
    return np.concatenate([[0], inner, [len(hashes)]]).astype(np.int64)

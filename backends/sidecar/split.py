"""Rows cut into the parts of each range: what is routed by is the hash of the key."""

import numpy as np
import pyarrow as pa

from idlestate.backends.hashing import hash_keys
from idlestate.backends.ranges import shard_bounds
from idlestate.backends.sidecar.shard_ranges import shards_of


def split_rows(
    rows: pa.Table, key_names: tuple[str, ...], shards: int, ranges: int
) -> dict[int, pa.Table]:
    """The rows of each range that has some, in the order in which they were given.

    Args:
        rows: with key columns in the types of the operator.
        key_names: the key columns.
        shards: how many shards the operator has.
        ranges: how many ranges its shards are spread over.
    """
    hashes = hash_keys([rows.column(name).combine_chunks() for name in key_names])
    edges = shard_bounds(np.sort(hashes), shards)
    order = np.argsort(hashes, kind="stable")
    found = {}
    for at in range(ranges):
        mine = shards_of(at, shards, ranges)
        if not len(mine):
            continue
        chosen = np.sort(order[edges[mine[0]] : edges[mine[-1] + 1]])
        if len(chosen):
            found[at] = rows.take(pa.array(chosen))
    return found

"""Rows divided by range of shards, according to the hash of their key."""

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.shards.shard_ranges import first_hashes
from idlestate.sidecar.protocol.worker_ranges import shards_of


def split_rows(
    rows: pa.Table, key_names: tuple[str, ...], shards: int, ranges: int
) -> dict[int, pa.Table]:
    """The rows of each range that has any, in their original order.

    Args:
        rows: with key columns in the types of the operator.
        key_names: the key columns.
        shards: the operator's number of shards.
        ranges: the number of ranges that its shards are divided into.
    """
    hashes = hash_keys([rows.column(name).combine_chunks() for name in key_names])
    parts = {at: mine for at in range(ranges) if (mine := shards_of(at, shards, ranges))}
    begins = first_hashes(shards)[[mine[0] for mine in parts.values()]]
    part = np.searchsorted(begins[1:], hashes, side="right")
    found = {}
    for number, at in enumerate(parts):
        chosen = np.flatnonzero(part == number)
        if len(chosen):
            found[at] = rows.take(pa.array(chosen))
    return found

"""Rows are cut into the parts of ranges as their shards lie, however many there are of either."""

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.shards.shard_ranges import first_hashes, shard_bounds
from idlestate.sidecar.protocol.rows_by_range import split_rows
from idlestate.sidecar.protocol.worker_ranges import range_of


@pytest.mark.parametrize(("shards", "ranges"), [(4, 2), (4, 1), (7, 3), (2, 4), (1, 3)])
def test_each_row_goes_to_the_range_of_its_shard_in_the_order_given(
    shards: int, ranges: int
) -> None:
    keys = pa.array([None, *(f"key-{number % 700}" for number in range(1000))])
    rows = pa.table({"k": keys, "at": range(len(keys))})
    hashes = hash_keys([keys])
    shard = np.searchsorted(first_hashes(shards), hashes, side="right") - 1
    parts = split_rows(rows, ("k",), shards, ranges)
    for at, part in parts.items():
        mine = [i for i, each in enumerate(shard) if range_of(int(each), shards, ranges) == at]
        assert part.column("at").to_pylist() == mine
    assert sum(map(len, parts.values())) == len(rows)


def test_the_first_hash_of_a_shard_is_its_own_and_the_one_before_is_not() -> None:
    for shards in (1, 3, 4, 1000):
        firsts = first_hashes(shards)
        assert firsts[0] == -(2**63)
        around = np.sort(np.concatenate([firsts, firsts[1:] - 1]))
        bounds = shard_bounds(around, shards)
        assert around[bounds[:-1]].tolist() == firsts.tolist()


def test_no_rows_have_no_parts() -> None:
    assert split_rows(pa.table({"k": pa.array([], pa.string())}), ("k",), 4, 2) == {}

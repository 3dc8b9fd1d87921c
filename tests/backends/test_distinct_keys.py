"""Distinct keys among rows, in whatever order these come."""

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs.keys import find_distinct


@pytest.mark.parametrize(
    ("hashes", "names"),
    [
        ([1, 1, 2, 3, 3], "aabcc"),
        ([1, 1, 2, 3, 3], "abcde"),
        ([1, 1, 1], "aba"),
        ([3, 1, 3, 2], "cacb"),
        ([3, 1, 3, 2], "cadb"),
        ([], ""),
    ],
    ids=["sorted", "sorted, weak", "sorted, mixed", "unsorted", "unsorted, weak", "none"],
)
def test_rows_have_one_number_iff_they_have_one_key(hashes: list[int], names: str) -> None:
    keys = pa.array(list(names), pa.string())
    distinct = find_distinct(np.array(hashes, dtype=np.int64), [keys])
    assert [names[at] for at in distinct.first[distinct.key].tolist()] == list(names)
    assert len(distinct.first) == len(set(names))
    assert sorted(distinct.order.tolist()) == list(range(len(names)))
    in_order = [(hashes[at], int(distinct.key[at]), at) for at in distinct.order.tolist()]
    assert in_order == sorted(in_order)
    assert distinct.counts.tolist() == np.bincount(distinct.key).tolist()


@pytest.mark.parametrize("count", [6, 12_000], ids=["many rows a key", "few rows a key"])
@pytest.mark.parametrize("other", [0, 9_000, 19_999])
def test_one_other_key_among_many_rows_is_found(count: int, other: int) -> None:
    numbers = np.arange(20_000) % count
    names = [f"key {number}" for number in numbers.tolist()]
    names[other] = "another key of the same hash"
    distinct = find_distinct(count - numbers, [pa.array(names)])
    assert len(distinct.first) == len(set(names))
    assert [names[at] for at in distinct.first[distinct.key].tolist()] == names

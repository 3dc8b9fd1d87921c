"""The filter never denies a key it holds, and seldom grants one it does not."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.backends.runs.bloom_filter import Filter, Filters
from idlestate.backends.runs.byte_source import Whole

EDGES = st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])
HASHES = st.lists(st.one_of(EDGES, st.integers(-(2**63), 2**63 - 1)), min_size=1, unique=True)


def filters_of(*segments):
    blocks = [Filter.of(hashes).blocks for hashes in segments]
    counts = np.array([len(each) for each in blocks])
    return Filters(
        Whole(pa.py_buffer(np.concatenate(blocks))),
        np.cumsum(counts) - counts,
        counts,
        np.array([hashes[0] for hashes in segments]),
        np.array([hashes[-1] for hashes in segments]),
    )


@given(HASHES, st.integers(0, 100))
def test_what_is_held_is_never_denied(hashes, cut):
    """By the filter of one segment or of two."""
    ordered = np.array(sorted(hashes), dtype=np.int64)
    segments = [part for part in (ordered[:cut], ordered[cut:]) if len(part)]
    assert filters_of(*segments).may_hold(ordered).all()


def test_what_lies_in_no_segment_is_not_held():
    filters = filters_of(np.array([-5, 3]), np.array([10, 20]))
    assert filters.may_hold(np.array([-6, -5, 3, 4, 9, 10, 20, 21])).tolist() == [
        False, True, True, False, False, True, True, False
    ]  # fmt: skip


@pytest.mark.parametrize("span", [2**40, 2**60, 2**64])
def test_few_absent_hashes_pass(span):
    """Also in a shard, whose hashes share their first bits."""
    chance = np.random.default_rng(3)
    low = -span // 2
    held = np.unique(chance.integers(low, low + span - 1, 50_000, dtype=np.int64))
    absent = np.setdiff1d(chance.integers(held[0], held[-1], 50_000, dtype=np.int64), held)
    passed = filters_of(held).may_hold(absent).mean()
    assert passed < 0.03
    assert len(Filter.of(held).blocks) * 64 <= 10 * len(held) + 64

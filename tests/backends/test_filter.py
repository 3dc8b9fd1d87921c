"""The filter never denies a key it holds, and seldom grants one it does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.backends.runs.bloom_filter import Filter
from idlestate.backends.runs.reading import IN_MEMORY, together

EDGES = st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])
HASHES = st.lists(st.one_of(EDGES, st.integers(-(2**63), 2**63 - 1)), min_size=1, unique=True)


@given(HASHES)
def test_what_is_held_is_never_denied(hashes):
    ordered = np.array(sorted(hashes), dtype=np.int64)
    assert together(IN_MEMORY, [Filter.of(ordered).may_hold(ordered)])[0].all()


@pytest.mark.parametrize("span", [2**40, 2**60, 2**64])
def test_few_absent_hashes_pass(span):
    """Also in a shard, whose hashes share their first bits."""
    chance = np.random.default_rng(3)
    low = -span // 2
    held = np.unique(chance.integers(low, low + span - 1, 50_000, dtype=np.int64))
    absent = np.setdiff1d(chance.integers(held[0], held[-1], 50_000, dtype=np.int64), held)
    passed = together(IN_MEMORY, [Filter.of(held).may_hold(absent)])[0].mean()
    assert passed < 0.03
    assert len(Filter.of(held).blocks) * 64 <= 10 * len(held) + 64

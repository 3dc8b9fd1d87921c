"""Ages fall into buckets whose upper bounds belong to them."""

from itertools import pairwise

import numpy as np
import pytest

from idlestate.retention.age_buckets import AGE_BUCKETS_MS, count_ages

LAST = len(AGE_BUCKETS_MS)


def test_bounds_ascend():
    assert all(low < high for low, high in pairwise((0, *AGE_BUCKETS_MS)))


@pytest.mark.parametrize("bucket", range(LAST))
def test_an_age_at_a_bound_is_below_it_and_one_more_is_not(bucket):
    bound_ms = AGE_BUCKETS_MS[bucket]
    counts = count_ages(np.array([bound_ms - 1, bound_ms, bound_ms + 1]))
    assert counts == tuple({bucket: 2, bucket + 1: 1}.get(at, 0) for at in range(LAST + 1))


def test_no_ages_fall_nowhere_and_an_endless_one_in_the_last_bucket():
    assert count_ages(np.zeros(0, dtype=np.int64)) == (0,) * (LAST + 1)
    assert count_ages(np.array([2**63 - 1])) == (*(0,) * LAST, 1)

"""The rule of a time to live."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.errors import RefusedError
from idlestate.retention.policy import FOREVER_MS, TimeDomain, UpdateType
from idlestate.retention.ttl import expires_ms, expiry_ms, horizon_ms
from idlestate.retention.ttl_config import (
    CompactionCleanup,
    IncrementalCleanup,
    StateTtlConfig,
    StateVisibility,
)

EDGES = [-FOREVER_MS - 1, -FOREVER_MS, -1, 0, 1, 1000, FOREVER_MS - 1, FOREVER_MS]
TIMES = st.sampled_from(EDGES) | st.integers(-FOREVER_MS - 1, FOREVER_MS)
TTLS = st.sampled_from([1, 2, 1000, FOREVER_MS - 1, FOREVER_MS]) | st.integers(1, FOREVER_MS)


@given(TIMES, TTLS, TIMES)
def test_the_horizon_parts_what_has_expired_from_what_lives(stamp, ttl_ms, now):
    expired = min(stamp + ttl_ms, FOREVER_MS) <= now
    assert (stamp <= horizon_ms(ttl_ms, now)) == expired
    stamps = np.array([stamp], dtype=np.int64)
    assert bool((stamps <= horizon_ms(ttl_ms, now))[0]) == expired
    assert (expiry_ms(ttl_ms, stamp) <= now) == expired
    assert expiry_ms(ttl_ms, stamp) == expires_ms(ttl_ms, stamps)[0]
    assert bool((expires_ms(ttl_ms, stamps) <= now)[0]) == expired


def test_alive_at_the_last_millisecond_expired_at_the_next():
    assert horizon_ms(100, 1099) == 999
    assert horizon_ms(100, 1100) == 1000


def test_a_duration_that_is_not_valid_is_named():
    with pytest.raises(RefusedError, match="ttl: 5 has no unit"):
        StateTtlConfig(ttl=5)
    with pytest.raises(RefusedError, match="periodic: 5 has no unit"):
        CompactionCleanup(periodic=5)


@pytest.mark.parametrize(
    ("name", "member"),
    [
        *(("update_type", each) for each in UpdateType),
        *(("visibility", each) for each in StateVisibility),
        *(("time", each) for each in TimeDomain),
    ],
)
def test_words_may_be_text_as_in_a_policy(name, member):
    for word in (member, member.value):
        assert getattr(StateTtlConfig(ttl="1h", **{name: word}), name) is member
    with pytest.raises(RefusedError, match=f"{name} must be one of .*{member.value}"):
        StateTtlConfig(ttl="1h", **{name: "sometimes"})


@pytest.mark.parametrize(
    "make",
    [
        lambda: StateTtlConfig(ttl="1h", update_type="sometimes"),
        lambda: StateTtlConfig(ttl="1h", visibility=None),
        lambda: StateTtlConfig(ttl="1h", time="sometimes"),
        lambda: StateTtlConfig(ttl="1h", time=None),
        lambda: StateTtlConfig(ttl="1h", incremental=5),
        lambda: StateTtlConfig(ttl="1h", compaction=1000),
        lambda: IncrementalCleanup("5"),
        lambda: CompactionCleanup(0.5),
        lambda: CompactionCleanup(periodic_ms="30d"),
    ],
)
def test_settings_of_another_type_are_refused(make):
    with pytest.raises(RefusedError, match=r"pass a|not valid|must be one of"):
        make()

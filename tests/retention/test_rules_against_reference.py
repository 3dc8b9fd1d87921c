"""Each rule on numbers, on arrays and by hand agree, up to the ends of the 64-bit range."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from idlestate.retention import rules
from idlestate.retention.policy import FOREVER_MS, Policy, UpdateType
from tests.reference import Life, Reference, Rule, plus

NEVER_MS = rules.NEVER_MS
TIMES = st.one_of(
    st.integers(0, 100),
    st.integers(FOREVER_MS - 100, FOREVER_MS),
    st.integers(NEVER_MS + 1, NEVER_MS + 100),
    st.integers(NEVER_MS + 1, FOREVER_MS),
)
SPANS = st.one_of(st.integers(0, 100), st.integers(FOREVER_MS - 100, FOREVER_MS))
UPDATES = st.sampled_from(list(UpdateType))


def both(function, *arguments):
    """The answer on plain numbers, which has to be the answer on arrays too."""
    scalar = function(*arguments)
    wrapped = [
        np.array([each] * 3, dtype=np.int64) if type(each) is int else each for each in arguments
    ]
    np.testing.assert_array_equal(function(*wrapped), [scalar] * 3)
    return scalar


@given(TIMES, SPANS)
def test_sums_stop_at_forever(t_ms, span_ms):
    assert both(lambda t: rules.saturating_add(t, span_ms), t_ms) == plus(t_ms, span_ms)
    assert both(lambda t: rules.armed_cleanup_at(t, span_ms), t_ms) == plus(t_ms, span_ms)


@given(TIMES, TIMES, SPANS)
def test_re_arming_is_strict(t_ms, cleanup_ms, min_ms):
    found = both(lambda t, cleanup: rules.needs_rearm(t, cleanup, min_ms), t_ms, cleanup_ms)
    assert found == (plus(t_ms, min_ms) > cleanup_ms)


@given(SPANS, st.integers(0, 1000))
def test_re_arming_at_and_beside_the_edge(min_ms, slack):
    t_ms, max_ms = 1000, plus(min_ms, slack)
    cleanup_ms = plus(t_ms, max_ms)
    edge = cleanup_ms - min_ms
    assert not both(lambda t: rules.needs_rearm(t, cleanup_ms, min_ms), edge)
    assert both(lambda t: rules.needs_rearm(t, cleanup_ms, min_ms), edge + 1) == (
        cleanup_ms < FOREVER_MS
    )


@given(TIMES, st.sampled_from([-1, 0, 1]))
def test_a_life_ends_at_its_deadline(deadline_ms, off):
    t_ms = min(deadline_ms + off, FOREVER_MS)
    assert both(rules.is_due, deadline_ms, t_ms) == (deadline_ms <= t_ms)


@given(TIMES, st.one_of(st.just(NEVER_MS), TIMES), UPDATES)
def test_last_access(written_ms, read_ms, update):
    found = both(lambda w, r: rules.last_access(w, r, update), written_ms, read_ms)
    counts = update is UpdateType.ON_READ_AND_WRITE and read_ms != NEVER_MS
    assert found == (max(written_ms, read_ms) if counts else written_ms)


@given(
    st.lists(TIMES, min_size=3, max_size=3).map(sorted),
    st.booleans(),
    st.booleans(),
    *(SPANS, SPANS, SPANS, SPANS, UPDATES, UPDATES),
)
def test_cleanup_deadline_and_reason(
    times_ms, is_read, is_armed, min_ms, slack, ttl_ms, lifetime_ms, update, ttl_update
):
    rule = Rule(
        idle_min_ms=min_ms,
        idle_max_ms=plus(min_ms, slack),
        update=update.value,
        ttl_ms=ttl_ms,
        ttl_update=ttl_update.value,
        max_lifetime_ms=lifetime_ms,
    )
    policy = Policy(
        idle_min_ms=rule.idle_min_ms,
        idle_max_ms=rule.idle_max_ms,
        update=update,
        ttl_ms=ttl_ms,
        ttl_update=ttl_update,
        max_lifetime_ms=lifetime_ms,
        min_gap_ms=0,
    )
    created_ms, written_ms, read_ms = times_ms
    life = Life(created_ms, written_ms, read_ms if is_read else None)
    life.armed_at = created_ms if is_armed else None
    reference = Reference(rule, {})
    reference.lives = {(): life}
    reference.change_rule(rule)
    state = reference.states()[()]

    read_ms = read_ms if is_read else NEVER_MS
    last_ms = rules.last_access(written_ms, read_ms, update)
    assert last_ms == state.last_access
    armed_ms = created_ms if is_armed else NEVER_MS
    cleanup_ms = both(lambda armed, last: rules.cleanup_at(armed, last, policy), armed_ms, last_ms)
    assert cleanup_ms == (FOREVER_MS if state.cleanup_at is None else state.cleanup_at)
    base_ms = rules.last_access(written_ms, read_ms, ttl_update)
    for wrap in (int, lambda t_ms: np.array([t_ms], dtype=np.int64)):
        found = rules.ends(wrap(created_ms), wrap(base_ms), wrap(cleanup_ms), policy)
        assert int(found.deadline_ms.reshape(())) == (
            FOREVER_MS if state.deadline is None else state.deadline
        )
        assert rules.Reason(int(found.reason.reshape(()))).label == state.reason
        alone_ms = rules.deadline(wrap(created_ms), wrap(base_ms), wrap(cleanup_ms), policy)
        assert int(np.reshape(alone_ms, ())) == int(found.deadline_ms.reshape(()))

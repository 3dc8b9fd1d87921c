"""Lives of functions, which are changed access by access, against those of `walk`, which divides
all accesses of a batch at once: also where the policy changes between two batches.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import strategies as st

from idlestate import Policy
from idlestate.functions.life_table import LifeTable
from idlestate.retention.lives import Accesses, Lives, walk
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.single_life import SingleLife
from tests.lengths import law

Life = tuple[int, ...]
Batch = tuple[Policy, Sequence[int]]
Tested = Callable[[Policy, Life | None, Sequence[int]], tuple[list[int], Life]]
POLICIES = st.builds(
    Policy,
    idle_min_ms=st.sampled_from([0, 2, 5, 10]),
    idle_max_ms=st.sampled_from([10, 12, 20]),
    ttl_ms=st.sampled_from([0, 0, 7, 15]),
    max_lifetime_ms=st.sampled_from([0, 0, 30]),
    min_gap_ms=st.just(0),
)
BATCHES = st.lists(
    st.tuples(POLICIES, st.lists(st.integers(0, 12), min_size=1, max_size=6)),
    min_size=1,
    max_size=5,
)
OFF, IDLE = Policy(), Policy(idle_min_ms=5, idle_max_ms=8, min_gap_ms=0)


def as_lives(life: Life | None) -> Lives:
    times = np.array([] if life is None else [life], dtype=np.int64).reshape(-1, 4)
    return Lives(*np.ascontiguousarray(times.T))


def of_walk(policy: Policy, life: Life | None, times_ms: Sequence[int]) -> tuple[list[int], Life]:
    accesses = Accesses(np.array([len(times_ms)]), np.array(times_ms), None)
    found = walk(accesses, as_lives(life), np.array([life is not None]), policy)
    ends = found.ends.deadline_ms[found.is_closed].tolist()
    return ends, tuple(int(column[-1]) for column in found.lives.columns)


def one_key(policy: Policy, life: Life | None, times_ms: Sequence[int]) -> tuple[list[int], Life]:
    one, ends, is_open = SingleLife(policy), list[int](), life is not None
    if life is not None:
        lives = as_lives(life)
        of_policy = lives.cleanup_at_ms(policy), lives.ends(policy).deadline_ms
        one.resume(*life, *(int(each[0]) for each in of_policy))
    for t_ms in times_ms:
        if is_open and one.deadline_ms <= t_ms:
            ends.append(one.deadline_ms)
            is_open = False
        if is_open:
            one.write(t_ms)
        else:
            one.begin(t_ms)
            is_open = True
    return ends, one.times_ms()[:4]


def many_keys(policy: Policy, life: Life | None, times_ms: Sequence[int]) -> tuple[list[int], Life]:
    key, ends = np.zeros(1, dtype=np.int64), list[int]()
    table = LifeTable(policy, 1)
    if life is not None:
        table.load(key, as_lives(life))
    for t_ms in times_ms:
        if table.is_open[0] and table.deadline_ms[0] <= t_ms:
            ends.append(int(table.deadline_ms[0]))
            table.end(key, expired=True)
        table.write(key, np.array([t_ms]))
    lives = table.lives(key, np.array([FOREVER_MS]))
    return ends, tuple(int(column[0]) for column in lives.columns[:4])


def check(tested: Tested, batches: Sequence[Batch]) -> None:
    at_ms, life = 0, None
    for policy, gaps in batches:
        times_ms = []
        for gap in gaps:
            at_ms += gap
            times_ms.append(at_ms)
        expected = of_walk(policy, life, times_ms)
        assert tested(policy, life, times_ms) == expected
        life = expected[1]


@pytest.mark.parametrize("tested", [one_key, many_keys])
def test_a_policy_that_turns_the_idle_rule_on_arms_with_the_next_access(
    tested: Tested,
) -> None:
    check(tested, [(OFF, [20]), (IDLE, [1]), (IDLE, [6])])


@law(100, st.sampled_from([one_key, many_keys]), BATCHES)
def test_lives_are_those_that_walk_finds(tested: Tested, batches: list[Batch]) -> None:
    check(tested, batches)

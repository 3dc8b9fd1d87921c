"""What is told of the ages of keys at a scrape is what a look at every life would tell."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest

from idlestate.metrics.families import DUE_WITHIN_MS
from idlestate.metrics.key_age_samples import idle_ages, keys_due
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.retention.age_buckets import AGE_BUCKETS_MS
from idlestate.sidecar.server.operator_snapshot import OperatorSnapshot
from tests.reference import Rule
from tests.sidecar.kinds_of_worlds import SHORT_AND_LONG_KINDS
from tests.sidecar.sidecar_world import KEYS, World, batch

MINUTE_MS = 60_000
RULE = Rule(idle_min_ms=50 * MINUTE_MS, idle_max_ms=26 * 60 * MINUTE_MS, remember_ms=10**10)


@pytest.fixture(params=SHORT_AND_LONG_KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(request.param, tmp_path / "state", RULE)
    yield made
    made.close()


def statistics_of(world: World) -> OperatorStatistics:
    (found,) = OperatorSnapshot(world.host).at(world.clock.now_ms())
    return found


def due_of(world: World) -> dict[str, int]:
    (by_span,) = keys_due([statistics_of(world)], world.clock.now_ms())
    return {name: due.keys for name, due in by_span.items()}


def assert_ages_are_true(world: World) -> None:
    now_ms, lives, found = world.clock.now_ms(), world.lives(), statistics_of(world)
    left_ms = [row["deadline"] - now_ms for row in lives]
    due = {name: sum(ms <= span_ms for ms in left_ms) for name, span_ms in DUE_WITHIN_MS.items()}
    assert keys_due([found], now_ms) == [
        {name: (keys, len(lives) - keys) for name, keys in due.items()}
    ]
    ages_ms = [now_ms - row["last_access"] for row in lives]
    (ages,) = idle_ages([found], now_ms)
    upto = [sum(age <= bound_ms for age in ages_ms) for bound_ms in AGE_BUCKETS_MS]
    assert list(accumulate(ages.counts)) == [*upto, len(lives)]
    assert ages.sum == pytest.approx(sum(ages_ms) / 1000, abs=1e5)


def test_due_keys_and_idle_ages_are_those_of_the_lives(world: World) -> None:
    """While keys are written, come back and wait for a sweep."""
    chance, seen = Random(3), set()
    for at in range(30):
        keys = chance.sample(KEYS, chance.randrange(4))
        planned = replace(batch(world, at, *keys), rule=RULE)
        world.run(planned)
        world.settle(planned)
        assert_ages_are_true(world)
        world.clock.advance(chance.choice([1, 17, 61, 200, 700]) * MINUTE_MS)
        assert_ages_are_true(world)  # what became overdue is due
        if at % 3 == 0:
            world.sweep()
            assert_ages_are_true(world)
            world.clock.advance(MINUTE_MS)  # so that the next batch looks again
        seen.add(tuple(due_of(world).values()))
        if at == 12:
            world.crash()
            world.begin("run-1")
    assert len(seen) > 8
    absences_ms = world.reference.absences_ms
    found = statistics_of(world).absences
    upto = [sum(ms <= bound_ms for ms in absences_ms) for bound_ms in AGE_BUCKETS_MS]
    assert list(accumulate(found.counts)) == [*upto, len(absences_ms)]
    assert found.sum == pytest.approx(sum(absences_ms) / 1000)
    assert len(absences_ms) > 5


def test_between_two_looks_the_figures_are_those_of_the_last(world: World) -> None:
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(1)
    world.write("w", 1, "touch", [(KEYS[0], 1)])
    assert_ages_are_true(world)  # though the look is as old as the first write
    world.clock.advance(26 * 60 * MINUTE_MS)
    world.sweep()
    assert due_of(world) == {"1h": 0, "24h": 0}


def test_where_no_life_is_left_nothing_is_due_and_nothing_has_an_age(world: World) -> None:
    """Even right after a look: without lives, nothing may ever look again."""
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(1)
    world.write("w", 1, "remove", [(key, 1) for key in KEYS])
    assert_ages_are_true(world)


def test_after_a_reload_deadlines_are_those_of_the_new_policy(world: World) -> None:
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    assert due_of(world) == {"1h": 0, "24h": 0}
    world.reload(Rule(ttl_ms=40 * MINUTE_MS))
    world.sweep()
    assert_ages_are_true(world)
    assert due_of(world)["1h"] == len(KEYS)

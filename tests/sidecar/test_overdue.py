"""How far sweeps are behind, as a scrape tells it: true at that moment, whatever sweeps do."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from idlestate.sidecar.server import sweep_lag
from idlestate.sidecar.server.operator_snapshot import OperatorSnapshot
from tests.backends.test_law import IDLE, named_case
from tests.backends.test_law import batch as events
from tests.patience import PATIENCE_S
from tests.reference import Rule
from tests.sidecar.expiry_lag import lag_ms
from tests.sidecar.kinds_of_worlds import SHORT_AND_LONG_KINDS
from tests.sidecar.sidecar_process import OPERATOR, UID, wait_for
from tests.sidecar.sidecar_world import KEYS, RULE, World, batch
from tests.sidecar.test_law import Sidecar
from tests.sidecar.test_workers import metric, rows_of
from tests.stopped_process import stop


@pytest.fixture(params=SHORT_AND_LONG_KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(request.param, tmp_path / "state")
    yield made
    made.close()


def of(world: World) -> OperatorSnapshot:
    return OperatorSnapshot(world.host)


def test_the_age_of_the_oldest_overdue_key_is_told_though_no_sweep_comes(world: World) -> None:
    asked = of(world)
    world.write("w", 0, "add", [(f"key-{number}", 1) for number in range(5_000)])
    world.clock.advance(RULE.idle_max_ms - 1)
    assert lag_ms(world, asked) == 0
    for past_ms, step_ms in ((0, 1), (1, 1), (15_000, 14_999), (3_600_000, 3_585_000)):
        world.clock.advance(step_ms)
        assert lag_ms(world, asked) == past_ms
    world.sweep()
    assert lag_ms(world, asked) == 0


def test_what_is_left_of_a_sweep_that_is_under_way_counts(world: World) -> None:
    asked = of(world)
    for at, key in enumerate(KEYS):
        world.write("w", at, "add", [(key, 1)])
        world.clock.advance(7)
    world.clock.advance(RULE.idle_max_ms)
    world.operator.sweeper.pace.rows = 1
    now_ms, seen = world.clock.now_ms(), set()
    while world.operator.sweeper.sweep(now_ms, world.clock, 0):
        left = [row["deadline"] for row in world.lives()]
        assert lag_ms(world, asked) == max((now_ms - end_ms for end_ms in left), default=0)
        seen.add(len(left))
    assert len(seen) > 3
    assert lag_ms(world, asked) == 0


def test_keys_that_were_used_meanwhile_are_not_overdue(world: World) -> None:
    """Their old rows are still there, and the records say that one of those ends first."""
    asked = of(world)
    for number in range(4):
        world.write("w", number, "touch" if number else "add", [(key, 1) for key in KEYS])
        world.clock.advance(RULE.idle_min_ms)
        assert lag_ms(world, asked) == 0
    world.clock.advance(RULE.idle_max_ms - RULE.idle_min_ms + 5)
    assert lag_ms(world, asked) == 5


@pytest.mark.parametrize(("rule", "behind_ms"), [(Rule(ttl_ms=3_600_000), 0), (Rule(ttl_ms=3), 7)])
def test_after_a_reload_keys_are_overdue_by_the_new_policy(
    world: World, rule: Rule, behind_ms: int
) -> None:
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(10)
    world.operator.batches.open(world.attempt(batch(world, 0, *KEYS), 0, "e"))
    world.reload(rule)
    assert lag_ms(world, of(world)) == behind_ms


def test_in_event_time_it_is_told_by_what_the_query_has_reached(tmp_path: Path) -> None:
    batches = [events("a100 b170 c200")]
    case = named_case(IDLE, batches, [0], is_sorted=True, aggregates={"n": "count"})
    sidecar = Sidecar(case, "heap", tmp_path / "state")
    sidecar.run(0, 0)
    asked = OperatorSnapshot(sidecar.host)
    assert lag_ms(sidecar, asked) == 0
    sidecar.reached_ms = 100 + IDLE.idle_max_ms + 25
    sidecar.operator.batches.settle()
    assert lag_ms(sidecar, asked) == 25
    while sidecar.operator.sweeper.sweep(sidecar.reached_ms, sidecar.clock, 1000):
        pass
    assert lag_ms(sidecar, asked) == 0
    sidecar.close()


def test_while_a_sweep_hangs_the_figure_rises(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the operator's lock, as where its write hangs; and then no table answers either."""
    monkeypatch.setattr(sweep_lag, "PATIENCE_S", 0.05)
    state, hangs, go_on = world.operator.state, threading.Event(), threading.Event()
    save, first_ends = state.save, state.executor.first_ends

    def wait(*_: Any) -> Any:
        hangs.set()
        assert go_on.wait(PATIENCE_S)
        return {}

    asked = of(world)
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    monkeypatch.setattr(state, "save", lambda *args, **named: (wait(), save(*args, **named)))
    sweep = threading.Thread(target=world.sweep)
    sweep.start()
    try:
        assert hangs.wait(PATIENCE_S)
        world.clock.advance(20)
        assert lag_ms(world, asked) == 20
        monkeypatch.setattr(state.executor, "first_ends", wait)
        assert lag_ms(world, of(world)) == 20
        world.clock.advance(500)
        assert lag_ms(world, asked) == 520
    finally:
        go_on.set()
        sweep.join()
    monkeypatch.setattr(state.executor, "first_ends", first_ends)
    assert lag_ms(world, asked) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_it_is_scraped_between_sweeps_and_while_a_worker_hangs(made: Any, workers: int) -> None:
    operator = {**OPERATOR, "policy": "short"}
    sidecar = made(workers=workers, sweep_every="1h", operators={UID: operator}).start()
    with sidecar.client() as client:
        client.add_many(rows_of(5_000))
    first = wait_for(lambda: metric(sidecar, "idlestate_expiry_lag_seconds"))
    hanging = sidecar.workers()
    for pid in hanging:
        stop(pid)
    try:
        wait_for(lambda: metric(sidecar, "idlestate_expiry_lag_seconds") > first)
    finally:
        for pid in hanging:
            os.kill(pid, signal.SIGCONT)

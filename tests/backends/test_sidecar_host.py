"""The operators of a sidecar: one that is dropped leaves nothing behind."""

from typing import Any

import pytest

from idlestate.backends.sidecar.errors import DamagedError, DoesNotFitError, SidecarError
from idlestate.backends.sidecar.work import Stepped
from tests.backends.sidecar_world import KEYS, RULE, UID, World, batch


def fill(world: World) -> None:
    first = batch(world, 0, *KEYS)
    world.run(first)
    world.settle(first)
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    world.task(batch(world, 1, *KEYS), 0, "e")
    world.write("w", 0, "add", [("waits", 1)])


def test_nothing_is_left_of_an_operator_that_is_dropped(world: World) -> None:
    fill(world)
    world.host.drop(UID)
    assert list(world.store.scan("")) == []
    for worker in world.workers:
        assert {key for key, _ in worker.store.scan("")} <= set(worker.later)
    world.host.drop(UID)
    world.crash()
    assert world.lives() == world.expired() == []


def test_who_was_waiting_for_a_dropped_operator_brings_nothing_back(world: World) -> None:
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    state = world.operator.state
    work = state.work

    class Slow:
        """Has the operator dropped while a sweep is at work."""

        def __getattr__(self, name: str) -> Any:
            return getattr(work, name)

        def close(self, *step: Any) -> Stepped:
            found = work.close(*step)
            state.work = work
            world.host.drop(UID)
            return found

    slow: Any = Slow()
    state.work = slow
    with pytest.raises(DoesNotFitError, match="was dropped"):
        world.sweep()
    with pytest.raises(SidecarError):
        world.write("w", 1, "add", [("late", 1)])
    world.crash()
    assert world.lives() == []


def test_an_operator_that_cannot_be_dropped_is_there_as_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("w", 0, "add", [("a", 1)])

    def full(_: object) -> None:
        raise DamagedError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(world.store, "write", full)
        with pytest.raises(DamagedError):
            world.host.drop(UID)
    assert world.host[UID] is world.operator
    world.write("w", 1, "add", [("a", 1)])
    assert world.lives()[0]["n"] == 2

"""The operators of a sidecar: declared all or none, and one that is dropped leaves nothing."""

from typing import Any

import pytest

from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.core.shard_executor import StepResult
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DamagedDirectoryError, DoesNotFitError, SidecarError
from tests.reference import Rule
from tests.sidecar.sidecar_world import KEYS, RULE, SPEC, UID, World, batch, policy_processing

OLD, NEW = policy_processing(RULE), policy_processing(Rule(ttl_ms=7))


def declared(*uids: str, policy: Any = OLD) -> list[tuple[Declaration, Any]]:
    return [(Declaration.of(uid, SPEC, TimeDomain.PROCESSING, 2), policy) for uid in uids]


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
    executor = state.executor

    class Slow:
        """Has the operator dropped while a sweep is at work."""

        def __getattr__(self, name: str) -> Any:
            return getattr(executor, name)

        def close(self, *step: Any) -> StepResult:
            found = executor.close(*step)
            state.executor = executor
            world.host.drop(UID)
            return found

    slow: Any = Slow()
    state.executor = slow
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
        raise DamagedDirectoryError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(world.store, "write", full)
        with pytest.raises(DamagedDirectoryError):
            world.host.drop(UID)
    assert world.host[UID] is world.operator
    world.write("w", 1, "add", [("a", 1)])
    assert world.lives()[0]["n"] == 2


def policies(world: World) -> dict[str, Any]:
    return {each.state.uid: each.record.policy for each in world.host}


def test_a_change_of_all_policies_that_cannot_be_written_whole_changes_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.host.drop(UID)
    world.host.declare_all(declared("a", "b"))
    write, writes = world.store.write, []

    def full(changes: Any) -> None:
        if writes:
            raise DamagedDirectoryError("no room")
        writes.append(changes)
        write(changes)

    with monkeypatch.context() as patched:
        patched.setattr(world.store, "write", full)
        world.host.declare_all(declared("a", "b", "c", policy=NEW))
        with pytest.raises(DamagedDirectoryError):
            world.host.declare_all(declared("a", "b", "d"))
    assert policies(world) == dict.fromkeys("abc", NEW)
    world.host.declare_all(declared("a", "b", "d"))
    assert policies(world) == {"a": OLD, "b": OLD, "c": NEW, "d": OLD}


def test_operators_that_are_too_many_together_are_refused_together(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("idlestate.sidecar.core.operators.MAX_OPERATORS", 2)
    with pytest.raises(DoesNotFitError, match="the maximum is 2"):
        world.host.declare_all(declared("a", "b"))
    assert list(policies(world)) == [UID]

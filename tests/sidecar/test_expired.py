"""Expired records of an operator: numbered, kept for consumers, given back."""

import pytest

from idlestate.sidecar.protocol.errors import DoesNotFitError
from tests.sidecar.sidecar_world import (
    KEYS,
    RULE,
    World,
    batch,
)


def test_expired_records_of_sweeps_and_batches_are_numbered_in_one_row(world: World) -> None:
    first = batch(world, 0, *KEYS[:6])
    world.run(first)
    world.settle(first)
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    world.reference.sweep(world.clock.now_ms())
    second = batch(world, 1, *KEYS)
    world.run(second)
    world.commit(second)
    world.clock.advance(RULE.idle_max_ms)
    third = batch(world, 2, "z")
    world.run(third)
    world.settle(third)
    world.crash()
    assert len(world.expired()) == 6 + 12
    world.check()


def test_expired_records_stay_until_every_consumer_has_acknowledged_them(world: World) -> None:
    world.operator.acknowledge("one", 0)
    world.operator.acknowledge("two", 0)
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    world.operator.acknowledge("one", 12)
    assert world.operator.trim(0) == 0
    world.crash()
    world.operator.acknowledge("two", 12)
    assert world.operator.trim(0) == 12
    assert world.operator.expired(0, None, 100) is None
    world.crash()
    assert world.operator.record.next_seq == 12


def test_expired_records_go_when_they_are_old_whoever_has_not_seen_them(world: World) -> None:
    world.write("w", 0, "add", [("a", 1)])
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    assert world.operator.trim(world.clock.now_ms() - 1) == 0
    assert world.operator.trim(world.clock.now_ms()) == 1


def test_a_consumer_that_is_silent_for_the_whole_retention_is_forgotten(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Else records that all others have would be kept for it, for good."""
    world.operator.acknowledge("gone", 0)
    for seq, keys in enumerate((KEYS[:6], KEYS[6:])):
        world.write("w", seq, "add", [(key, 1) for key in keys])
        world.clock.advance(RULE.idle_max_ms)
        world.sweep()
    second_ms = world.clock.now_ms()
    world.operator.acknowledge("late", 1)
    world.operator.acknowledge("done", 12)
    assert world.operator.trim(second_ms - 1) == 6  # the first six are too old
    assert world.operator.record.consumers == {"late": 1, "done": 12}
    assert world.operator.forgotten_consumers == 1
    assert "expired_retention: gone" in caplog.text
    world.crash()
    assert world.operator.record.consumers == {"late": 1, "done": 12}
    assert world.operator.trim(second_ms) == 6
    assert world.operator.record.consumers == {"done": 12}
    assert list(world.operator.record.heard_ms) == ["done"]


def test_a_consumer_goes_forward_and_no_further_than_the_records(world: World) -> None:
    world.write("w", 1, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    world.operator.acknowledge("a", len(KEYS))
    world.operator.acknowledge("a", 3)  # a late word
    assert world.operator.record.consumers == {"a": len(KEYS)}
    for number in (-1, len(KEYS) + 1):
        with pytest.raises(DoesNotFitError, match="another sidecar's number"):
            world.operator.acknowledge("a", number)
    world.crash()
    assert world.operator.record.consumers == {"a": len(KEYS)}


def test_of_too_many_consumers_one_that_is_too_late_makes_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("idlestate.sidecar.core.operator.MAX_CONSUMERS", 2)
    world.operator.acknowledge("gone", 0)
    world.write("w", 1, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    world.operator.acknowledge("a", len(KEYS))
    with pytest.raises(DoesNotFitError, match="let consumers keep their names"):
        world.operator.acknowledge("b", len(KEYS))
    world.operator.trim(world.clock.now_ms())
    world.operator.acknowledge("b", len(KEYS))
    assert world.operator.record.consumers == {"a": len(KEYS), "b": len(KEYS)}
    with pytest.raises(DoesNotFitError, match="let consumers keep their names"):
        world.operator.acknowledge("c", len(KEYS))


def test_a_consumer_that_has_just_come_is_not_late_for_what_went_before_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for the oldest record that is kept, and nobody who comes next takes its place."""
    monkeypatch.setattr("idlestate.sidecar.core.operator.MAX_CONSUMERS", 1)
    world.write("w", 1, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    world.operator.trim(world.clock.now_ms())
    world.operator.acknowledge("new", 0)
    with pytest.raises(DoesNotFitError, match="let consumers keep their names"):
        world.operator.acknowledge("next", 0)
    assert list(world.operator.record.consumers) == ["new"]


def test_a_range_of_expired_records_is_the_same_however_often_it_is_read(world: World) -> None:
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    once = world.operator.expired(3, 9, 100)
    assert once is not None
    assert once.column("seq").to_pylist() == [3, 4, 5, 6, 7, 8]
    parts = [world.operator.expired(at, 9, 2) for at in (3, 5, 7)]
    assert [len(part) for part in parts if part is not None] == [2, 2, 2]

"""Clocks and sweeps of a sidecar."""

from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.sidecar.core.operator_record import NO_BATCH
from idlestate.sidecar.core.sweeper import Pace, Sweeper
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DamagedDirectoryError, DoesNotFitError
from idlestate.sidecar.protocol.rows_by_range import split_rows
from tests.reference import Rule
from tests.sidecar.sidecar_world import (
    KEYS,
    RULE,
    SHARDS,
    World,
    batch,
    rows_of,
)


def test_rule_7_what_passes_between_two_starts_is_downtime(world: World) -> None:
    world.write("w", 0, "add", [("a", 1)])
    world.clock.advance(86_400_000)
    world.crash()
    world.sweep()
    assert [row["expired_at"] - row["created_at"] for row in world.expired()] == [150]


def test_rule_7_time_never_runs_back_below_what_was_judged(world: World) -> None:
    world.write("w", 0, "add", [("a", 1)])
    world.clock.advance(100)
    world.write("w", 1, "add", [("b", 1)])
    world.clock.advance(-3_600_000)
    world.crash()
    world.write("w", 2, "add", [("c", 1)])
    found = {row["key"][0]: row["written_at"] for row in world.lives()}
    assert found["c"] == found["b"] == found["a"] + 100


def test_a_sweep_goes_on_where_its_budget_ended(world: World) -> None:
    for at, key in enumerate(KEYS):
        world.write("w", at, "add", [(key, 1)])
        world.clock.advance(1)
    world.clock.advance(1000)
    steps = 0
    world.operator.sweeper.pace.rows = 2
    while world.operator.sweeper.sweep(world.clock.now_ms(), world.clock, 0):
        steps += 1
        world.crash()
        world.operator.sweeper.pace.rows = 2
    assert steps > 4
    assert len(world.expired()) == len(KEYS)
    assert world.lives() == []


def test_two_who_sweep_at_once_do_not_take_each_others_plans(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the background does while bounded input ends."""
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    other = Thread(target=world.sweep)
    plan = Pace.plan

    def plan_and_look(pace: Pace, at: int, cuts: list[int]) -> None:
        plan(pace, at, cuts)
        if not other.ident:
            other.start()
            other.join(0.2)

    monkeypatch.setattr(Pace, "plan", plan_and_look)
    world.sweep()
    other.join()
    assert len(world.expired()) == len(KEYS)


def test_compaction_gives_back_what_sweeps_closed(world: World) -> None:
    keys = [f"{number}" for number in range(5000)]
    world.write("w", 0, "add", [(key, 1) for key in keys])
    world.clock.advance(60)
    world.write("w", 1, "add", [(key, 1) for key in keys[:500]])
    world.clock.advance(90)
    world.sweep()
    before = world.operator.sizes()
    while world.operator.sweeper.compact():
        pass
    after = world.operator.sizes()
    assert after.live_keys == before.live_keys == 500
    assert after.state_bytes < before.state_bytes / 3
    world.crash()
    assert len(world.lives()) == 500


def test_a_shorter_policy_ends_lives_at_the_next_sweep(world: World) -> None:
    world.write("w", 0, "add", [("a", 1)])
    world.reload(Rule(idle_min_ms=5, idle_max_ms=8))
    world.clock.advance(8)
    world.sweep()
    assert len(world.expired()) == 1


def test_another_operator_of_the_same_uid_is_refused(world: World) -> None:
    record = world.operator.record
    other = Declaration.from_json(record.declaration.to_json() | {"shards": 8})
    with pytest.raises(DoesNotFitError, match="shards was 4, is now 8"):
        world.host.declare(other, record.policy)


def test_look_ups_and_sweeps_go_on_while_runs_are_merged(world: World) -> None:
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    failed: list[Exception] = []
    done = Event()

    def look() -> None:
        try:
            while not done.is_set():
                found, _ = world.operator.look_up(rows_of([(key, 0) for key in KEYS]), 0)
                assert len(found) == len(KEYS)
                assert len(world.operator.lives(0, 0, LOWEST_HASH)[0]) <= len(KEYS)
                world.operator.sweeper.compact()
        except Exception as error:  # noqa: BLE001 - told by the main thread
            failed.append(error)

    threads = [Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(1, 50):
        world.write("w", number, "add", [(key, 1) for key in KEYS])
    done.set()
    for thread in threads:
        thread.join()
    assert failed == []
    assert {row["n"] for row in world.lives()} == {50}


def test_a_look_is_judged_at_the_time_of_what_it_saw(world: World) -> None:
    """What it saw would have ended by now; the life that it saw goes on."""
    world.write("w", 0, "add", [("a", 1)])
    now_ms, executor = world.clock.now_ms(), world.operator.state.executor
    look_up = executor.look_up

    def slow(*args: Any) -> Any:
        found = look_up(*args)
        for seq, key in ((1, "a"), (2, "b")):
            world.clock.advance(RULE.idle_max_ms - 10)
            world.write("w", seq, "add", [(key, 1)])
        return found

    executor.look_up = slow  # type: ignore[method-assign]
    assert len(world.operator.look_up(rows_of([("a", 0)]), now_ms)[0]) == 1


def test_a_look_that_is_begun_anew_says_of_which_batch_it_tells(world: World) -> None:
    planned = batch(world, 0, "a")
    world.run(planned)
    executor, look_up = world.operator.state.executor, world.operator.state.executor.look_up

    def merged_away(*_: Any) -> Any:
        executor.look_up = look_up  # type: ignore[method-assign]
        world.settle(planned)
        raise DamagedDirectoryError("its runs are gone")

    executor.look_up = merged_away  # type: ignore[method-assign]
    lives, batch_id = world.operator.look_up(rows_of([("a", 0)]), world.clock.now_ms())
    assert (len(lives), batch_id) == (1, 0)


def test_a_look_in_the_middle_of_a_commit_tells_of_one_moment(world: World) -> None:
    looks: list[tuple[int, int]] = []

    class Looking(list[Any]):
        def __iadd__(self, more: Any) -> Any:  # type: ignore[misc]
            lives, batch_id = world.operator.look_up(rows_of([("a", 0)]), world.clock.now_ms())
            looks.append((batch_id, len(lives)))
            return super().__iadd__(more)

    world.operator.state.log.entries = Looking()
    world.run(planned := batch(world, 0, "a"))
    world.settle(planned)
    assert looks
    assert set(looks) == {(NO_BATCH, 0)}


def test_a_sweep_gets_on_though_writes_never_pause(world: World) -> None:
    """Every step's shard is written to while it computes."""
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    sweeper, executor = world.operator.sweeper, world.operator.state.executor
    close, seq = executor.close, iter(range(1, 1000))

    def disturbed(*args: Any) -> Any:
        if not sweeper._in_vain:
            world.write("w", next(seq), "add", [(f"other-{number}", 1) for number in range(20)])
        return close(*args)

    executor.close = disturbed  # type: ignore[method-assign]
    for _ in range(20):
        sweeper.sweep(world.clock.now_ms(), world.clock, 0)
    assert len(world.expired()) == len(KEYS)


class Interrupted:
    """An operator's state, with a write just behind the first look of each sweep step."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.looks = self.writes = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.world.operator.state, name)
        if name in ("record", "shards"):
            self.looks += 1
            if self.looks == 3:  # the first two were the plan's
                self.writes += 1
                others = [(f"other-{number}", 1) for number in range(50)]
                self.world.write("w", self.writes, "add", others)  # to every shard
        return found


@pytest.mark.parametrize("world", ["heap"], indirect=True)
def test_a_write_between_two_looks_of_a_sweep_is_not_overlooked(world: World) -> None:
    """With the record of before the write and the shards of after it, the sweep would close lives
    in a run of its own version, which goes by as not swept: they would end twice.
    """
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    state: Any = Interrupted(world)
    Sweeper(state).sweep(world.clock.now_ms(), world.clock, 1000)
    world.sweep()
    assert state.writes == 1
    assert sorted(row["key"][0] for row in world.expired()) == sorted(KEYS)


@pytest.mark.parametrize("world", ["heap"], indirect=True)
def test_compaction_finds_a_sparse_shard_beside_a_fuller_one_with_more_dead_rows(
    world: World,
) -> None:
    full, sparse = keys_of_shard(0, 20_000), keys_of_shard(1, 4_000)
    world.write("w", 0, "add", [(key, 1) for key in (*full, *sparse)])
    world.clock.advance(RULE.idle_max_ms - 1)
    world.write("w", 1, "touch", [(key, 1) for key in (*full[5_000:], sparse[0])])
    world.clock.advance(1)
    world.sweep()
    while world.operator.sweeper.compact():
        pass
    first, second = world.operator.state.shards[:2]
    assert (first.current.rows, first.current.live) == (20_000, 15_000), "not sparse yet"
    assert second.current.rows == 1


def keys_of_shard(at: int, count: int) -> list[str]:
    keys = pa.array([f"key-{number:08}" for number in range(5 * SHARDS * count // 4)])
    rows = split_rows(pa.table({"k": keys}), ("k",), SHARDS, SHARDS)[at]
    found: list[str] = rows.column("k")[:count].to_pylist()
    assert len(found) == count
    return found


@pytest.mark.parametrize("world", ["heap"], indirect=True)
def test_a_write_behind_a_sweep_waits_for_one_shard_to_be_given_back(world: World) -> None:
    keys = [keys_of_shard(at, 3_000 + 100 * at) for at in range(SHARDS)]
    kept = [part[0] for part in keys]
    world.write("w", 0, "add", [(key, 1) for part in keys for key in part])
    world.clock.advance(RULE.idle_max_ms - 1)
    world.write("w", 1, "touch", [(key, 1) for part in keys for key in part[:20]])
    world.clock.advance(1)
    world.sweep()

    def full() -> list[int]:
        shards = world.operator.state.shards
        return [at for at, shard in enumerate(shards) if shard.current.rows > 1_000]

    left = [full()]
    for number in range(SHARDS):
        world.write("w", 2 + number, "add", [(key, 1) for key in kept])
        left.append(full())
    assert left == [[0, 1, 2, 3], [0, 1, 2], [0, 1], [0], []]

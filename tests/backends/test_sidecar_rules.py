"""The sidecar's rules of exactly-once, each by its number and name, on both stores."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from idlestate.backends.sidecar.errors import DoesNotFitError, GoneError
from tests.backends.sidecar_world import RULE, Planned, World
from tests.reference import Rule

KEYS = [f"key-{number}" for number in range(12)]


@pytest.fixture(params=["heap", "rocksdb"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = World(request.param, tmp_path / "state")
    yield made
    made.store.close()


def batch(world: World, batch_id: int, *keys: str, value: int = 1) -> Planned:
    return Planned(batch_id, tuple((key, value) for key in keys), world.clock.now_ms())


# ------------------------------------------------------------------ 1: a task's exchange


def test_rule_1_a_task_reads_the_state_of_the_batch_before_and_its_own_writes(
    world: World,
) -> None:
    first, second = batch(world, 0, *KEYS), batch(world, 1, *KEYS, value=5)
    world.run(first)
    world.commit(first)
    rows = world.run(second)
    assert {row["total"] for row in rows} == {6}
    assert world.lives() != []
    world.check()  # of the second batch nobody sees anything yet


def test_rule_1_partitions_come_from_the_task_and_may_not_differ_in_one_execution(
    world: World,
) -> None:
    planned = batch(world, 0, *KEYS)
    world.task(planned, 0, "e")
    with pytest.raises(DoesNotFitError, match="of 3, others of its execution are of 2"):
        world.task(planned, 1, "e", partitions=3)


# ------------------------------------------------------------------ 2: prepared sets


def test_rule_2_what_is_prepared_is_durable_and_invisible(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.run(planned)
    world.crash()
    assert world.lives() == []
    world.commit(planned)
    world.operator.batches.settle()
    world.check()
    assert len(world.lives()) == len(KEYS)


def test_rule_2_a_later_attempt_replaces_the_same_partition_of_a_set(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.task(planned, 0, "e")
    world.task(planned, 0, "e", attempt=1)
    world.task(planned, 0, "e", attempt=0)
    assert not any(each.is_complete for each in world.operator.state.sets.sets.values())
    world.task(planned, 1, "e")
    world.commit(planned)
    world.operator.batches.settle()
    world.check()


def test_rule_2_an_older_set_goes_only_when_a_newer_one_is_complete(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.run(planned, "first")
    world.task(planned, 0, "second")
    assert len(world.operator.state.sets.sets) == 2
    world.task(planned, 1, "second")
    assert [each for _, each in world.operator.state.sets.sets] == ["second"]
    world.commit(planned)
    world.operator.batches.settle()
    world.check()


def test_rule_2_an_incomplete_newer_set_does_not_hide_a_complete_one(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.run(planned, "first")
    world.task(planned, 0, "second")
    world.commit(planned)
    world.operator.batches.settle()
    world.check()


def test_rule_2_a_superseded_run_is_refused_for_good(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.task(planned, 0, "e")
    world.begin("run-1")
    with pytest.raises(DoesNotFitError, match="superseded"):
        world.task(planned, 1, "e", run_id="run-0")
    world.crash()
    with pytest.raises(DoesNotFitError, match="superseded"):
        world.begin("run-0")


def test_rule_2_a_task_that_was_admitted_is_refused_when_its_run_is_superseded(
    world: World,
) -> None:
    planned = batch(world, 0, *KEYS)
    attempt = world.attempt(planned, 0, "e")
    world.operator.batches.open(attempt)
    world.begin("run-1")
    with pytest.raises(DoesNotFitError, match="superseded"):
        world.prepare(planned, attempt)


def test_rule_2_a_committed_batch_is_refused_for_good(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.run(planned)
    world.commit(planned)
    world.operator.batches.settle()
    with pytest.raises(DoesNotFitError, match="has committed batch 0"):
        world.task(planned, 0, "again")


# ------------------------------------------------------------------ 3: commits


def test_rule_3_a_batch_is_committed_when_a_later_one_opens(world: World) -> None:
    first, second = batch(world, 0, *KEYS), batch(world, 1, "other")
    world.run(first)
    world.take_in(first)  # what Spark's log says nobody asks: the later batch is the proof
    world.task(second, 0, "e")
    assert world.operator.record.committed == 0
    world.check()


def test_rule_3_the_last_batch_is_committed_by_the_querys_commit_log(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.run(planned)
    world.operator.batches.settle()
    assert world.operator.record.committed == -1
    world.commit(planned)
    world.operator.batches.settle()
    assert world.operator.record.committed == 0
    world.check()


def test_rule_3_the_next_start_finds_what_was_committed_meanwhile(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.run(planned)
    world.commit(planned)
    world.crash()
    world.begin("run-1")
    world.check()


def test_rule_3_all_partitions_are_committed_or_none(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.task(planned, 0, "e")
    world.crash()
    world.task(planned, 1, "e")
    world.commit(planned)
    world.operator.batches.settle()
    world.check()


def test_rule_3_the_operator_stops_when_spark_committed_what_was_not_prepared(
    world: World,
) -> None:
    planned = batch(world, 0, *KEYS)
    world.task(planned, 0, "e")
    world.commits.add(0)
    world.operator.batches.settle()
    with pytest.raises(DoesNotFitError, match="committed batch 0"):
        world.task(batch(world, 1, *KEYS), 0, "next")


def test_rule_3_a_batch_of_which_no_task_reported_is_a_gap(world: World) -> None:
    first, third = batch(world, 0, *KEYS), batch(world, 2, *KEYS)
    for planned in (first, third):
        world.run(planned)
        world.commit(planned)
    world.operator.batches.settle()
    assert world.operator.record.committed == 2
    world.check()


def test_rule_3_an_earlier_batch_after_a_later_one_is_refused(world: World) -> None:
    world.task(batch(world, 3, *KEYS), 0, "e")
    with pytest.raises(DoesNotFitError, match="asynchronous progress"):
        world.task(batch(world, 2, *KEYS), 0, "f")


# ------------------------------------------------------------------ 4: time


def test_rule_4_every_set_uses_the_time_that_the_first_open_journaled(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.run(planned, "first")
    world.crash()
    world.clock.advance(50)
    later = Planned(0, planned.pairs, world.clock.now_ms())
    world.run(later, "second")
    world.commit(planned)
    world.operator.batches.settle()
    world.check()


def test_rule_4_a_batch_is_never_judged_before_the_last_sweep(world: World) -> None:
    old = batch(world, 1, "late")
    first = batch(world, 0, *KEYS)
    world.run(first)
    world.commit(first)
    world.operator.batches.settle()
    world.clock.advance(1000)
    world.sweep()
    world.reference.sweep(world.clock.now_ms())
    world.judged_ms = world.clock.now_ms()
    world.run(old)
    world.commit(old)
    world.operator.batches.settle()
    assert world.lives()[0]["created_at"] == world.clock.now_ms()
    world.check()


def test_rule_4_a_sweep_leaves_alone_what_a_batch_in_flight_looks_at(world: World) -> None:
    first = batch(world, 0, *KEYS)
    world.run(first)
    world.commit(first)
    world.operator.batches.settle()
    world.clock.advance(RULE.idle_max_ms - 1)
    second = batch(world, 1, KEYS[0])
    attempt = world.attempt(second, 0, "e")
    world.operator.batches.open(attempt)
    world.clock.advance(10_000)
    world.sweep()
    assert world.expired() == []
    world.prepare(second, attempt)
    world.task(second, 1, "e")
    world.commit(second)
    world.operator.batches.settle()
    world.check()
    assert any(row["key"] == (KEYS[0],) for row in world.lives())


def test_rule_4_a_replayed_batch_sees_what_it_saw(world: World) -> None:
    first = batch(world, 0, *KEYS)
    world.run(first)
    world.commit(first)
    second = batch(world, 1, *KEYS)
    rows = world.run(second)
    world.clock.advance(100_000)
    world.sweep()
    world.crash()
    world.begin("run-1")
    world.write("w", 0, "add", [(KEYS[0], 100)])
    assert world.run(second) == rows


def test_rule_4_look_ups_read_committed_state_and_say_of_which_batch(world: World) -> None:
    from tests.backends.sidecar_world import rows_of

    first, second = batch(world, 0, "a"), batch(world, 1, "a")
    world.run(first)
    world.commit(first)
    world.run(second)
    lives, batch_id = world.operator.look_up(rows_of([("a", 0), ("b", 0)]), world.clock.now_ms())
    assert (lives.column("n").to_pylist(), batch_id) == ([1], 0)
    world.clock.advance(RULE.idle_max_ms)
    lives, _ = world.operator.look_up(rows_of([("a", 0)]), world.clock.now_ms())
    assert len(lives) == 0, "it has ended, though no sweep has come by"


# ------------------------------------------------------------------ 5: owner and others


def test_rule_5_a_second_owner_is_refused_until_the_first_is_released(world: World) -> None:
    with pytest.raises(DoesNotFitError, match="idlestate operator release counts"):
        world.begin("run-x", query_id="query-2")
    world.operator.batches.release()
    world.begin("run-x", query_id="query-2")


def test_rule_5_after_a_release_old_tasks_are_refused(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.task(planned, 0, "e")
    world.operator.batches.release()
    with pytest.raises(DoesNotFitError, match="released"):
        world.task(planned, 1, "e")


def test_rule_5_a_write_counts_once_however_often_it_comes(world: World) -> None:
    assert world.write("w", 0, "add", [("a", 1)])
    assert not world.write("w", 0, "add", [("a", 1)])
    world.crash()
    assert not world.write("w", 0, "add", [("a", 1)])
    assert world.write("w", 1, "add", [("a", 1)])
    assert world.write("other", 0, "add", [("a", 1)])
    assert world.lives()[0]["n"] == 3


def test_rule_5_writes_of_others_become_visible_at_the_border_of_a_batch(world: World) -> None:
    first = batch(world, 0, "a")
    world.task(first, 0, "e")
    world.write("w", 0, "add", [("a", 10)])
    world.write("w", 1, "add", [("b", 10)])
    world.crash()
    assert not world.write("w", 1, "add", [("b", 10)])
    assert {row["key"]: row["total"] for row in world.run(first)} == {("a",): 1}
    world.commit(first)
    rows = world.run(batch(world, 1, "a", "b"))
    assert {row["key"]: row["total"] for row in rows} == {("a",): 12, ("b",): 11}


def test_rule_5_a_waiting_write_that_fits_no_more_does_not_hold_up_the_query(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    first = batch(world, 0, "a", value=2**62)
    world.task(first, 0, "e")
    world.write("w", 0, "add", [("a", 2**62)])
    world.write("w", 1, "add", [("b", 1)])
    world.run(first)
    world.commit(first)
    world.operator.batches.settle()
    assert {row["key"][0]: row["total"] for row in world.lives()} == {"a": 2**62, "b": 1}
    assert "write 0 of writer w is dropped" in caplog.text
    world.crash()
    world.run(batch(world, 1, "b"))


def test_rule_5_released_operators_take_in_what_waits(world: World) -> None:
    world.task(batch(world, 0, "a"), 0, "e")
    world.write("w", 0, "add", [("b", 10)])
    world.operator.batches.release()
    assert [row["key"] for row in world.lives()] == [("b",)]


# ------------------------------------------------------------------ 6: crashes


class CrashError(Exception):
    """The process dies here."""


def scenario(world: World) -> list[Callable[[], Any]]:
    """What happens one thing after another; each may be tried again when the sidecar died."""
    first = Planned(0, tuple((key, 1) for key in KEYS), world.clock.now_ms())
    second = Planned(1, tuple((key, 2) for key in KEYS[:6]), world.clock.now_ms() + 1000)
    third = Planned(2, (("late", 1), (KEYS[0], None)), world.clock.now_ms() + 1300)

    def settle() -> None:
        world.operator.batches.settle()

    def at(planned: Planned) -> None:
        world.clock.advance(max(0, planned.time_ms - world.clock.now_ms()))

    return [
        lambda: world.task(first, 0, "a"),
        lambda: world.write("w", 0, "add", [("waits", 1)]),
        lambda: world.task(first, 1, "a"),
        lambda: world.task(first, 0, "b"),
        lambda: world.begin("run-1"),
        lambda: world.run(first, "c"),
        lambda: world.commits.add(0),
        settle,
        lambda: world.write("w", 1, "put", [(KEYS[1], 9)]),
        lambda: at(second),
        world.sweep,
        lambda: world.run(second, "d"),
        lambda: world.commits.add(1),
        lambda: world.run(third, "e"),
        lambda: world.commits.add(2),
        settle,
        lambda: world.operator.acknowledge("downstream", 3),
        lambda: world.write("w", 2, "remove", [(KEYS[2], None)]),
        lambda: world.clock.advance(10_000 - world.clock.now_ms() % 10_000),
        world.sweep,
    ]


def outcome(world: World) -> tuple[Any, Any]:
    lives = sorted(repr(sorted(row.items())) for row in world.lives())
    ends = sorted(repr(sorted(row.items())) for row in world.expired())
    return lives, ends


def died_at_write(world: World, dies_at: int, is_written: bool, expected: Any) -> bool:
    """Play the scenario, and die at one write, before or after it was made; whether it came to
    that.
    """
    write, count = world.store.write, iter(range(10_000))

    def dying(changes: Any) -> None:
        is_last = next(count) == dies_at
        if not is_last or is_written:
            write(changes)
        if is_last:
            raise CrashError

    world.store.write = dying  # type: ignore[method-assign]
    died = False
    for step in scenario(world):
        try:
            step()
        except CrashError:
            died = True
            world.crash()
            step()
    assert outcome(world) == expected, dies_at
    world.store.close()
    return died


@pytest.mark.parametrize("kind", ["heap", "rocksdb"])
@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
def test_rule_6_a_crash_at_any_write_loses_nothing_and_counts_nothing_twice(
    tmp_path: Path, kind: str, is_written: bool
) -> None:
    calm = World(kind, tmp_path / "calm")
    for step in scenario(calm):
        step()
    expected = outcome(calm)
    calm.store.close()
    assert len(expected[1]) > len(KEYS)
    dies_at = 0
    while died_at_write(World(kind, tmp_path / f"{dies_at}"), dies_at, is_written, expected):
        dies_at += 1
    assert dies_at > 20


# ------------------------------------------------------------------ 7: clocks


def test_rule_7_what_passes_between_two_starts_is_downtime(world: World) -> None:
    world.write("w", 0, "add", [("a", 1)])
    world.clock.advance(86_400_000)
    world.crash()
    world.sweep()
    assert [row["expired_at"] - row["first_access"] for row in world.expired()] == [150]


def test_rule_7_time_never_runs_back_below_what_was_judged(world: World) -> None:
    world.write("w", 0, "add", [("a", 1)])
    world.clock.advance(100)
    world.write("w", 1, "add", [("b", 1)])
    world.clock.advance(-3_600_000)
    world.crash()
    world.write("w", 2, "add", [("c", 1)])
    found = {row["key"][0]: row["written_at"] for row in world.lives()}
    assert found["c"] == found["b"] == found["a"] + 100


# ------------------------------------------------------------------ expired records


def test_expired_records_of_sweeps_and_batches_are_numbered_in_one_row(world: World) -> None:
    first = batch(world, 0, *KEYS[:6])
    world.run(first)
    world.commit(first)
    world.operator.batches.settle()
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    world.reference.sweep(world.clock.now_ms())
    second = batch(world, 1, *KEYS)
    world.run(second)
    world.commit(second)
    world.clock.advance(RULE.idle_max_ms)
    third = batch(world, 2, "z")
    world.run(third)
    world.commit(third)
    world.operator.batches.settle()
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


def test_a_range_of_expired_records_is_the_same_however_often_it_is_read(world: World) -> None:
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    once = world.operator.expired(3, 9, 100)
    assert once is not None
    assert once.column("seq").to_pylist() == [3, 4, 5, 6, 7, 8]
    parts = [world.operator.expired(at, 9, 2) for at in (3, 5, 7)]
    assert [len(part) for part in parts if part is not None] == [2, 2, 2]


# ------------------------------------------------------------------ direct writes


def test_put_replaces_the_aggregates_and_the_life_goes_on(world: World) -> None:
    world.write("w", 0, "add", [("a", 5), ("a", 6), ("b", 1)])
    world.clock.advance(10)
    world.write("w", 1, "put", [("a", 1), ("a", 2), ("c", 7)])
    lives = {row["key"][0]: row for row in world.lives()}
    assert {key: (row["n"], row["total"], row["top"]) for key, row in lives.items()} == {
        "a": (1, 2, 2),
        "b": (1, 1, 1),
        "c": (1, 7, 7),
    }
    assert lives["a"]["created_at"] == lives["a"]["written_at"] - 10


def test_touch_keeps_a_key_alive_and_creates_none(world: World) -> None:
    world.write("w", 0, "add", [("a", 5)])
    world.clock.advance(RULE.idle_max_ms - 1)
    world.write("w", 1, "touch", [("a", None), ("nobody", None)])
    world.clock.advance(RULE.idle_min_ms - 1)
    world.sweep()
    (life,) = world.lives()
    assert (life["key"], life["n"], life["total"]) == (("a",), 1, 5)


def test_remove_takes_a_key_away_without_an_expired_record(world: World) -> None:
    world.write("w", 0, "add", [(key, 5) for key in KEYS])
    world.write("w", 1, "remove", [(key, None) for key in KEYS[:4]])
    world.crash()
    assert sorted(row["key"][0] for row in world.lives()) == sorted(KEYS[4:])
    assert world.expired() == []


def test_remove_does_not_hide_the_end_of_a_life_that_had_ended(world: World) -> None:
    world.write("w", 0, "add", [("a", 5)])
    world.clock.advance(RULE.idle_max_ms)
    world.write("w", 1, "remove", [("a", None)])
    world.sweep()
    assert [row["reason"] for row in world.expired()] == ["idle"]


# ------------------------------------------------------------------ sweeps


def test_a_sweep_goes_on_where_its_budget_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from idlestate.backends.sidecar import sweeper

    monkeypatch.setattr(sweeper, "STEP_ROWS", 2)
    for at, key in enumerate(KEYS):
        world.write("w", at, "add", [(key, 1)])
        world.clock.advance(1)
    world.clock.advance(1000)
    steps = 0
    while world.operator.sweeper.sweep(world.clock.now_ms(), world.clock, 0):
        steps += 1
        world.crash()
    assert steps > 4
    assert len(world.expired()) == len(KEYS)
    assert world.lives() == []


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
    from tests.backends.sidecar_world import policy_processing

    world.write("w", 0, "add", [("a", 1)])
    world.operator.change_policy(policy_processing(Rule(idle_min_ms=5, idle_max_ms=8)))
    world.clock.advance(8)
    world.sweep()
    assert len(world.expired()) == 1


def test_another_operator_of_the_same_uid_is_refused(world: World) -> None:
    from idlestate.backends.sidecar.declaration import Declaration

    record = world.operator.record
    other = Declaration.from_json(record.declaration.to_json() | {"shards": 8})
    assert record.declaration.differences(other) == ["shards was 4, is now 8"]


def test_a_batch_that_is_not_open_is_gone(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    with pytest.raises(GoneError):
        world.prepare(planned, world.attempt(planned, 0, "e"))


def test_look_ups_and_sweeps_go_on_while_runs_are_merged(world: World) -> None:
    from threading import Event, Thread

    from tests.backends.sidecar_world import rows_of

    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    failed: list[Exception] = []
    done = Event()

    def look() -> None:
        try:
            while not done.is_set():
                found, _ = world.operator.look_up(rows_of([(key, 0) for key in KEYS]), 0)
                assert len(found) == len(KEYS)
                assert sum(map(len, world.operator.lives(0, 0))) <= len(KEYS)
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


def test_a_sweep_gets_on_though_writes_never_pause(world: World) -> None:
    """Every step's shard is written to while it computes."""
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    sweeper, state = world.operator.sweeper, world.operator.state
    step, seq = state.step, iter(range(1, 1000))

    def disturbed(*args: Any) -> Any:
        if not sweeper._in_vain:
            world.write("w", next(seq), "add", [(f"other-{number}", 1) for number in range(20)])
        return step(*args)

    state.step = disturbed  # type: ignore[method-assign]
    for _ in range(20):
        sweeper.sweep(world.clock.now_ms(), world.clock, 0)
    assert len(world.expired()) == len(KEYS)

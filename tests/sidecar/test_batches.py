"""The rules of micro-batches in a sidecar, each by its number and name: exchanges, prepared sets,
commits, time.
"""

from dataclasses import replace
from typing import Any

import pytest

from idlestate.backends.shards.row_counts import RowCounts
from idlestate.retention.rules import NEVER_MS
from idlestate.sidecar.core import ownership
from idlestate.sidecar.core.data_calls import Calls
from idlestate.sidecar.protocol.errors import DoesNotFitError, GoneError
from idlestate.sidecar.protocol.message import Message
from idlestate.timers.steady_clock import SteadyClock
from tests.reference import Rule
from tests.sidecar.sidecar_world import KEYS, PARTITIONS, RULE, Planned, World, batch, rows_of


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


def test_rule_2_what_is_prepared_is_durable_and_invisible(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.run(planned)
    world.crash()
    assert world.lives() == []
    world.settle(planned)
    world.check()
    assert len(world.lives()) == len(KEYS)


def test_rule_2_a_later_attempt_replaces_the_same_partition_of_a_set(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.task(planned, 0, "e")
    world.task(planned, 0, "e", attempt=1)
    world.task(planned, 0, "e", attempt=0)
    (found,) = world.operator.state.sets.sets.values()
    assert {at: piece.attempt for at, piece in found.pieces.items()} == {0: 1}
    world.task(planned, 1, "e")
    world.settle(planned)
    world.check()


@pytest.mark.parametrize("ends", [1, 2])
def test_rule_2_an_older_set_goes_only_when_a_newer_one_is_complete(
    world: World, ends: int
) -> None:
    """Else the complete one is committed, though it is older."""
    planned = batch(world, 0, *KEYS)
    world.run(planned, "first")
    for partition in range(ends):
        world.task(planned, partition, "second")
    sets = world.operator.state.sets.sets
    left = [execution for (_, execution), each in sets.items() if each.pieces]
    assert left == (["first", "second"] if ends < PARTITIONS else ["second"])
    world.settle(planned)
    world.check()


def test_rule_2_late_tasks_of_an_older_set_make_it_no_newer(world: World) -> None:
    """As two actions on one batch, or a task of the first that was given up and goes on."""
    planned, other = batch(world, 0, *KEYS), batch(world, 0, *KEYS, value=5)
    late = [world.attempt(other, partition, "first") for partition in range(PARTITIONS)]
    for attempt in late:
        world.operator.batches.open(attempt)
    world.run(planned, "second")
    for attempt in late:
        world.prepare(other, attempt)
    world.settle(planned)
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
    world.settle(planned)
    with pytest.raises(DoesNotFitError, match="has committed batch 0"):
        world.task(planned, 0, "again")


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
    world.settle(planned)
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
    world.settle(planned)
    world.check()


def test_rule_3_the_operator_stops_when_spark_committed_what_was_not_prepared(
    world: World,
) -> None:
    planned = batch(world, 0, *KEYS)
    world.task(planned, 0, "e")
    world.commits.add(0)
    world.operator.batches.settle()
    with pytest.raises(DoesNotFitError, match="all parts of batch 0"):
        world.task(batch(world, 1, *KEYS), 0, "next")


def test_rule_3_a_batch_of_which_no_task_reported_is_a_gap(world: World) -> None:
    first, third = batch(world, 0, *KEYS), batch(world, 2, *KEYS)
    for planned in (first, third):
        world.run(planned)
        world.settle(planned)
    assert world.operator.record.committed == 2
    world.check()


def test_rule_3_an_earlier_batch_after_a_later_one_is_refused(world: World) -> None:
    world.task(batch(world, 3, *KEYS), 0, "e")
    with pytest.raises(DoesNotFitError, match="asynchronous progress"):
        world.task(batch(world, 2, *KEYS), 0, "f")


def test_rule_4_every_set_uses_the_time_that_the_first_open_journaled(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    world.run(planned, "first")
    world.crash()
    world.clock.advance(50)
    later = Planned(0, planned.pairs, world.clock.now_ms())
    world.run(later, "second")
    world.settle(planned)
    world.check()


def test_rule_4_every_task_goes_by_the_policy_that_the_first_open_journaled(world: World) -> None:
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    before = len(world.lives())
    world.clock.advance(50)
    planned = batch(world, 1)
    world.task(planned, 0, "e")
    world.task(replace(planned, rule=Rule(idle_min_ms=10, idle_max_ms=20)), 1, "e")
    world.commits.add(1)
    world.operator.batches.settle()
    assert world.operator.record.committed == 1
    assert len(world.lives()) == before == len(KEYS)


def test_rule_4_a_look_brings_back_no_life_when_the_clock_is_behind(world: World) -> None:
    world.write("w", 0, "add", [("early", 1)])
    early_ms = world.clock.now_ms()
    world.clock.advance(RULE.idle_max_ms)
    world.write("w", 1, "add", [("late", 1)])
    assert world.operator.look_up(rows_of([("early", None)]), early_ms)[0].num_rows == 0


def test_rule_4_a_batch_is_never_judged_before_the_last_sweep(world: World) -> None:
    old = batch(world, 1, "late")
    first = batch(world, 0, *KEYS)
    world.run(first)
    world.settle(first)
    world.clock.advance(1000)
    world.sweep()
    world.reference.sweep(world.clock.now_ms())
    world.judged_ms = world.clock.now_ms()
    world.run(old)
    world.settle(old)
    assert world.lives()[0]["created_at"] == world.clock.now_ms()
    world.check()


def test_rule_4_a_sweep_leaves_alone_what_a_batch_in_flight_looks_at(world: World) -> None:
    first = batch(world, 0, *KEYS)
    world.run(first)
    world.settle(first)
    world.clock.advance(RULE.idle_max_ms - 1)
    second = batch(world, 1, KEYS[0])
    attempt = world.attempt(second, 0, "e")
    world.operator.batches.open(attempt)
    world.clock.advance(10_000)
    world.sweep()
    assert world.expired() == []
    world.prepare(second, attempt)
    world.task(second, 1, "e")
    world.settle(second)
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
    first, second = batch(world, 0, "a"), batch(world, 1, "a")
    world.run(first)
    world.commit(first)
    world.run(second)
    lives, batch_id = world.operator.look_up(rows_of([("a", 0), ("b", 0)]), world.clock.now_ms())
    assert (lives.column("n").to_pylist(), batch_id) == ([1], 0)
    world.clock.advance(RULE.idle_max_ms)
    lives, _ = world.operator.look_up(rows_of([("a", 0)]), world.clock.now_ms())
    assert len(lives) == 0, "it has ended, though no sweep has come by"


def test_a_batch_that_is_not_open_is_gone(world: World) -> None:
    planned = batch(world, 0, *KEYS)
    with pytest.raises(GoneError):
        world.prepare(planned, world.attempt(planned, 0, "e"))


@pytest.mark.parametrize("partition", [-1, PARTITIONS])
def test_a_partition_that_cannot_be_is_refused(world: World, partition: int) -> None:
    planned = batch(world, 0, *KEYS)
    with pytest.raises(DoesNotFitError, match=f"partition {partition} of 2"):
        world.operator.batches.open(world.attempt(planned, partition, "e"))


@pytest.mark.parametrize("world", ["heap"], indirect=True)
def test_a_query_that_starts_again_and_again_makes_no_record_grow(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "MOST_SUPERSEDED", 3)
    sizes = []
    for number in range(1, 10):
        world.begin(f"run-{number}")
        sizes.append(len(world.operator.record.encode()))
    assert len(set(sizes[3:])) == 1
    with pytest.raises(DoesNotFitError, match="superseded"):
        world.begin("run-8")
    with pytest.raises(DoesNotFitError, match="superseded"):
        world.task(batch(world, 0, *KEYS), 0, "e", run_id="run-1")


def test_inputs_are_those_of_the_batch_before_until_the_query_has_committed(world: World) -> None:
    """Packing tasks ask; a batch that runs again, also after a crash, gets the same answer."""

    def answer() -> dict[str, Any]:
        calls = Calls(world.host, SteadyClock(world.clock))
        body = Message({"uid": world.operator.state.uid}).encode()
        return Message.decode(calls.table.answer("settle", body)).header["inputs"]

    rows = {"left": RowCounts(input=2, highest_ms=7), "right": RowCounts()}
    planned = replace(batch(world, 0, *KEYS), counts=rows)
    world.run(planned)
    assert answer() == {}
    world.crash()
    assert answer() == {}
    world.commit(planned)
    after = answer()
    assert after["left"] == {"rows": rows["left"].as_dict(), "quiet": None}
    assert after["right"]["quiet"] == [planned.time_ms, planned.time_ms]
    world.operator.batches.release()  # another query may begin with older rows
    assert answer()["left"]["rows"] == rows["left"].as_dict() | {"highest_ms": NEVER_MS}
    assert answer()["right"]["quiet"] is None

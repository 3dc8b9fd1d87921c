"""The owner of a sidecar's operator, and everybody else who writes to it."""

from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from idlestate.sidecar.core import data_calls
from idlestate.sidecar.core.data_calls import Calls
from idlestate.sidecar.core.micro_batches import Batches
from idlestate.sidecar.core.one_way_writes import DirectWrites
from idlestate.sidecar.protocol.errors import BusyError, DamagedDirectoryError, DoesNotFitError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.server.status import sidecar_page
from idlestate.timers.steady_clock import SteadyClock
from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_world import KEYS, RULE, UID, World, batch


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


@pytest.mark.parametrize("world", ["heap in 2 ranges", "rocksdb in 3 ranges"], indirect=True)
def test_rule_5_what_waited_counts_before_the_next_sweep_though_a_worker_was_away_at_the_border(
    world: World,
) -> None:
    world.write("w", 0, "add", [("a", 1)])
    first = batch(world, 0, "b")
    world.run(first)
    world.clock.advance(RULE.idle_max_ms - 1)
    world.write("w", 1, "touch", [("a", None)])
    world.commits.add(0)
    for worker in world.workers:
        worker.is_away = True
    with pytest.raises(BusyError):
        world.operator.batches.settle()
    assert world.operator.record.committed == 0
    for worker in world.workers:
        worker.is_away = False
    world.clock.advance(1)
    world.sweep()
    world.operator.batches.settle()
    world.sweep()
    assert world.operator.sizes().waiting == 0
    assert [row["key"] for row in world.lives()] == [("a",)]
    assert [row["key"] for row in world.expired()] == [("b",)]


def test_rule_5_what_waits_at_a_border_keeps_no_sidecar_from_starting_on_a_full_disk(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken in when there is room."""
    first = batch(world, 0, "a")
    world.run(first)
    world.write("w", 0, "add", [("b", 1)])
    apply = DirectWrites._apply

    def full(*_: Any) -> None:
        raise DamagedDirectoryError("the disk is full")

    monkeypatch.setattr(DirectWrites, "_apply", full)
    world.commits.add(0)
    with pytest.raises(DamagedDirectoryError):
        world.operator.batches.settle()
    world.crash()
    assert [row["key"] for row in world.lives()] == [("a",)]
    monkeypatch.setattr(DirectWrites, "_apply", apply)
    world.operator.batches.settle()
    assert world.operator.sizes().waiting == 0
    assert sorted(row["key"] for row in world.lives()) == [("a",), ("b",)]


def test_rule_5_a_waiting_write_that_fits_no_more_is_quarantined_and_shown(world: World) -> None:
    first = batch(world, 0, "a", value=2**62)
    world.task(first, 0, "e")
    world.write("w", 0, "add", [("a", 2**62), ("c", 1)])
    world.write("w", 1, "add", [("b", 1)])
    world.run(first)
    world.settle(first)
    for _ in range(2):
        assert {row["key"][0]: row["total"] for row in world.lives()} == {"a": 2**62, "b": 1}
        assert world.operator.sizes().quarantined == 2
        ((facts, rows),) = world.operator.writes.quarantined.read(0)
        assert (facts["writer"], facts["seq"], facts["kind"]) == ("w", 0, "add")
        assert "sum" in facts["reason"]
        found = pa.ipc.open_stream(rows).read_all().sort_by("v").to_pylist()
        assert found == [{"k": "c", "v": 1}, {"k": "a", "v": 2**62}]
        page = sidecar_page(world.host, world.clock, lambda _: [], lambda _: [])
        (notice,) = page._subject.notices(UID)
        assert notice == "2 quarantined rows: SidecarClient.quarantined() returns them"
        world.crash()
    assert not world.write("w", 0, "add", [("c", 1)])
    world.run(batch(world, 1, "b"))


def test_rule_5_released_operators_take_in_what_waits(world: World) -> None:
    world.task(batch(world, 0, "a"), 0, "e")
    world.write("w", 0, "add", [("b", 10)])
    world.operator.batches.release()
    assert [row["key"] for row in world.lives()] == [("b",)]


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


def test_a_write_without_rows_is_taken_like_any_other(world: World) -> None:
    assert world.write("w", 0, "add", [])
    first = batch(world, 0, "a")
    world.run(first)
    assert world.write("w", 1, "add", [])
    world.settle(first)
    assert world.operator.sizes().waiting == world.operator.sizes().quarantined == 0
    assert world.lives()[0]["n"] == 1


def test_nobody_waits_while_a_commit_log_is_looked_into(world: World) -> None:
    planned = batch(world, 0, "a")
    world.run(planned)
    state, free = world.operator.state, []

    def look(_checkpoint: str, _batch_id: int) -> bool:
        def take() -> None:
            free.append(state.lock.acquire(timeout=PATIENCE_S))
            if free[-1]:
                state.lock.release()

        other = Thread(target=take)
        other.start()
        other.join()
        return True

    Batches(state, look, world.operator.writes.drain).settle()
    assert free == [True]
    assert world.operator.record.committed == 0


@pytest.mark.parametrize("world", ["heap"], indirect=True)
def test_many_writes_that_were_quarantined_are_told_of_some_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = batch(world, 0, "a", value=2**62)
    world.run(first)
    for seq in range(3):
        world.write("w", seq, "add", [("a", 2**62)])
    world.settle(first)
    table = Calls(world.host, SteadyClock(world.clock)).table
    monkeypatch.setattr(data_calls, "CHUNK_BYTES", 1)
    told, since = [], 0
    while True:
        header = {"uid": UID, "since": since}
        answer = Message.decode(table.answer("quarantined", Message(header).encode()))
        if not answer.parts:
            break
        (facts,) = answer.header["writes"]
        told.append(facts["seq"])
        since = facts["number"] + 1
    assert told == [0, 1, 2]


def test_what_no_record_names_goes_with_the_next_write(world: World) -> None:
    for seq in range(20):
        world.write("w", seq, "add", [(key, 1) for key in KEYS])
        stores = [each.store for each in world.workers] or [world.store]
        stored = {key for store in stores for key, _ in store.scan("s/")}
        put_off = {key for each in world.workers for key in each.later}
        named = set(world.operator.state.named_values())
        assert named <= stored
        assert stored - named == put_off
    assert {row["n"] for row in world.lives()} == {20}


def test_update_rows_are_made_for_a_query_alone(world: World) -> None:
    world.write("w", 0, "add", [("a", 1)])
    world.clock.advance(RULE.idle_max_ms)
    world.write("w", 1, "add", [("a", 1), ("b", 1)])
    found = world.operator.expired(0, None, 100)
    assert found is not None
    assert found.select(["k", "n", "change"]).to_pylist() == [
        {"k": "a", "n": 1, "change": "expire"}
    ]

"""Small entries of the log of expired records are joined; what is read stays the same."""

from pathlib import Path
from typing import Any

import pytest

from idlestate.config.sidecar_settings import Sidecar as Settings
from idlestate.sidecar.core import expired_log_compaction
from idlestate.sidecar.core.expired_log import LogEntry
from idlestate.sidecar.server.job_scheduler import Scheduler
from idlestate.sidecar.server.sweep_and_cleanup_jobs import Background
from idlestate.timers.steady_clock import SteadyClock
from tests.sidecar.sidecar_world import KEYS, RULE, UID, World

FOREVER_MS = 1 << 40


def entries(world: World) -> list[LogEntry]:
    return world.operator.state.log.entries


def expire(world: World, *keys: str) -> None:
    """Keys that live and end: an entry per shard that they are in."""
    seq = next(SEQS)
    world.write("w", seq, "add", [(key, seq) for key in keys])
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()


SEQS = iter(range(10**9))


def expire_many(world: World, times: int) -> None:
    for at in range(times):
        expire(world, KEYS[at % len(KEYS)])


def ranges(world: World) -> list[Any]:
    """Records by number, from everywhere to everywhere near."""
    last = world.operator.record.next_seq
    found = []
    for since in range(last):
        for before in (since + 1, since + 7, last):
            rows = world.operator.expired(since, before, 5)
            assert rows is not None
            found.append(rows.to_pylist())
    return found


def test_joined_entries_have_the_same_records_under_the_same_numbers(world: World) -> None:
    expire_many(world, 30)
    before, records = ranges(world), world.expired()
    assert len(entries(world)) == 30
    world.join()
    assert len(entries(world)) == 1
    assert (ranges(world), world.expired()) == (before, records)
    world.crash()
    assert (ranges(world), world.expired()) == (before, records)
    expire_many(world, 30)
    world.join()
    assert len(entries(world)) == 1
    assert world.expired()[:30] == records
    assert world.operator.record.next_seq == len(world.expired()) == 60


def test_nothing_is_left_of_entries_that_were_joined_or_removed(world: World) -> None:
    expire_many(world, 20)
    world.join()
    stores = [world.store, *(worker.store for worker in world.workers)]
    for worker in world.workers:
        worker.call("remove", {"keys": worker.later})
    staged = [key for store in stores for key, _ in store.scan("x/")]
    assert staged == []
    assert [key for key, _ in world.store.scan(f"j/{UID}/")] == [entries(world)[0].key]
    assert world.operator.trim(world.clock.now_ms()) == 20
    assert [key for kind in "ej" for key, _ in world.store.scan(f"{kind}/")] == []


def test_a_dropped_operator_leaves_no_joined_records(world: World) -> None:
    expire_many(world, 20)
    world.join()
    world.host.drop(UID)
    assert [key for key, _ in world.store.scan("") if UID in key] == []


def test_the_newest_entries_wait_until_there_are_sixteen(world: World) -> None:
    expire_many(world, 15)
    world.join()
    assert len(entries(world)) == 15
    expire_many(world, 1)
    world.join()
    assert len(entries(world)) == 1


def test_however_many_entries_come_few_are_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expired_log_compaction, "FULL_ROWS", 10)
    for _ in range(6):
        expire_many(world, 10)
        world.join()
        full = [entry for entry in entries(world) if entry.rows >= 10]
        assert len(entries(world)) <= len(full) + 15
        assert max(entry.rows for entry in entries(world)) < 20
    assert len(world.expired()) == 60


def test_a_full_entry_stays_and_parts_what_is_before_it_from_what_is_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expired_log_compaction, "FULL_ROWS", 20)
    expire_many(world, 3)
    expire(world, *(f"key-{number}" for number in range(200)))
    expire_many(world, 3)
    large = [entry for entry in entries(world) if entry.rows >= 20]
    records = world.expired()
    world.join()
    assert [entry.rows for entry in entries(world)] == [
        3,
        *(entry.rows for entry in large),
        *(1, 1, 1),
    ]
    assert [entry for entry in entries(world) if entry.rows >= 20] == large
    assert world.expired() == records


def test_a_joined_value_is_no_larger_than_a_call(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    expire_many(world, 40)
    one = world.operator.state.log.stored(entries(world)[0]).nbytes
    monkeypatch.setattr(expired_log_compaction, "CHUNK_BYTES", 5 * one)
    records = world.expired()
    world.join()
    sizes = [world.operator.state.log.stored(entry).nbytes for entry in entries(world)]
    assert max(sizes) <= 5 * one
    assert 8 <= len(sizes) < 25
    assert world.expired() == records


def test_entries_that_are_further_apart_than_the_span_stay_apart(world: World) -> None:
    """Else records would be kept for longer than the retention by more than that."""
    for _ in range(3):
        expire_many(world, 4)
        world.clock.advance(10_000)
    world.join(span_ms=5_000)
    assert [entry.rows for entry in entries(world)] == [4, 4, 1, 1, 1, 1]
    newest = entries(world)[0].at_ms
    assert world.operator.trim(newest - 1) == 0
    assert world.operator.trim(newest) == 4


def test_a_consumer_in_the_middle_of_a_joined_entry_keeps_it(world: World) -> None:
    world.operator.acknowledge("one", 0)
    expire_many(world, 20)
    world.join()
    world.operator.acknowledge("one", 10)
    assert world.operator.trim(0) == 0
    rows = world.operator.expired(10, None, 100)
    assert rows is not None
    assert rows.column("seq").to_pylist() == list(range(10, 20))
    world.operator.acknowledge("one", 20)
    assert world.operator.trim(0) == 20


@pytest.mark.parametrize("world", ["heap", "rocksdb in 3 ranges"], indirect=True)
def test_entries_that_are_removed_while_they_are_read_are_not_brought_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    expire_many(world, 20)
    world.operator.acknowledge("one", 5)
    read = world.operator.joins._read

    def read_and_trim(group: Any) -> Any:
        tables = read(group)
        world.operator.trim(0)
        return tables

    monkeypatch.setattr(world.operator.joins, "_read", read_and_trim)
    world.join()
    assert world.operator.first_seq == 5
    assert len(entries(world)) == 15
    world.crash()
    assert len(entries(world)) == 15


def test_records_of_another_definition_are_joined_among_themselves(folder: Path) -> None:
    world = World("heap", folder / "state")
    log = world.operator.state.log
    expire_many(world, 20)
    records = world.expired()
    stored = log.stored
    log.stored = lambda entry: (  # type: ignore[method-assign]
        stored(entry) if entry.first < 10 else stored(entry).append_column("a9", [[0] * entry.rows])
    )
    world.join()
    del log.stored
    assert [entry.rows for entry in entries(world)][:1] == [10]
    assert world.expired() == records
    world.close()


def test_the_job_joins_what_lies_within_a_hundredth_of_the_retention(folder: Path) -> None:
    world = World("heap", folder / "state")
    for _ in range(2):
        expire_many(world, 20)
        world.clock.advance(5_000)
    settings = Settings.model_validate({"directory": str(folder), "expired_retention": "8m"})
    Background(world.host, SteadyClock(world.clock), settings, Scheduler().stopping).trim()
    assert [entry.rows for entry in entries(world)] == [20, 20]
    world.close()

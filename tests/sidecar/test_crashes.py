"""A crash of a sidecar at any write loses nothing and counts nothing twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from idlestate.sidecar.core import expired_log_compaction
from idlestate.sidecar.protocol import message
from idlestate.sidecar.protocol.errors import BusyError, GoneError
from tests.sidecar.sidecar_world import KEYS, NearWorker, Planned, World


@pytest.fixture(autouse=True)
def joins_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the few entries of a test be joined."""
    monkeypatch.setattr(expired_log_compaction, "_LEAST", 2)


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
        world.join,
        lambda: world.run(second, "d"),
        lambda: world.commits.add(1),
        lambda: world.run(third, "e"),
        lambda: world.commits.add(2),
        settle,
        world.join,
        lambda: world.operator.acknowledge("downstream", 3),
        lambda: world.operator.trim(0),
        lambda: world.write("w", 2, "remove", [(KEYS[2], None)]),
        lambda: world.clock.advance(10_000 - world.clock.now_ms() % 10_000),
        world.sweep,
        world.join,
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
    world.close()
    return died


@pytest.mark.parametrize(
    ("is_written", "kind", "first", "every"),
    [
        pytest.param(False, "rocksdb", 0, 3, id="before-rocksdb-short"),
        pytest.param(True, "heap in 2 ranges", 1, 3, id="after-heap in 2 ranges-short"),
        *(
            pytest.param(is_written, kind, 0, 1, id=f"{when}-{kind}", marks=pytest.mark.long)
            for is_written, when in ((False, "before"), (True, "after"))
            for kind in ("rocksdb", "heap", "heap in 2 ranges")
        ),
    ],
)
def test_rule_6_a_crash_at_any_write_loses_nothing_and_counts_nothing_twice(
    tmp_path: Path, kind: str, is_written: bool, first: int, every: int
) -> None:
    """In the short form, at each write on one of the stores."""
    calm = World(kind, tmp_path / "calm" / "state")
    for step in scenario(calm):
        step()
    expected = outcome(calm)
    calm.close()
    assert len(expected[1]) > len(KEYS)
    dies_at = first
    while died_at_write(
        World(kind, tmp_path / f"{dies_at}" / "state"), dies_at, is_written, expected
    ):
        dies_at += every
    assert dies_at > 20


def worker_died_at_write(world: World, dies_at: int, is_written: bool, expected: Any) -> bool:
    """Play the scenario, and let a worker die at one of all workers' writes."""
    count = iter(range(10_000))
    died: list[int] = []

    def mortal(worker: NearWorker) -> None:
        write = worker.store.write

        def dying(changes: Any) -> None:
            is_last = next(count) == dies_at
            if not is_last or is_written:
                write(changes)
            if is_last:
                died.append(dies_at)
                worker.crash()
                raise BusyError("away")

        worker.store.write = dying  # type: ignore[method-assign]

    for worker in world.workers:
        mortal(worker)
    for step in scenario(world):
        try:
            step()
        except (BusyError, GoneError):
            step()
    assert outcome(world) == expected, dies_at
    world.close()
    return bool(died)


@pytest.mark.parametrize(
    ("is_written", "every"),
    [
        pytest.param(True, 2, id="after-short"),
        pytest.param(False, 1, id="before", marks=pytest.mark.long),
        pytest.param(True, 1, id="after", marks=pytest.mark.long),
    ],
)
def test_a_worker_that_dies_at_any_write_loses_nothing_and_counts_nothing_twice(
    tmp_path: Path, is_written: bool, every: int
) -> None:
    kind = "heap in 2 ranges"
    calm = World(kind, tmp_path / "calm" / "state")
    for step in scenario(calm):
        step()
    expected = outcome(calm)
    calm.close()
    dies_at = 0
    while worker_died_at_write(
        World(kind, tmp_path / f"{dies_at}" / "state"), dies_at, is_written, expected
    ):
        dies_at += every
    assert dies_at > 20


def test_what_no_record_names_is_given_back(tmp_path: Path) -> None:
    world = World("heap in 2 ranges", tmp_path / "state")
    for step in scenario(world):
        step()
    world.task(Planned(3, (("late", 1),), world.clock.now_ms()), 0, "e")
    for worker in world.workers:
        worker.store.write({"s/counts/00000/nobody/000000": b"x", "x/counts/00001/nobody": b"x"})
    before, named = outcome(world), dict(world.host.named_values())
    world.placement.keep(named.items())  # type: ignore[union-attr]
    kept = [key for worker in world.workers for key, _ in worker.store.scan("")]
    assert sorted(kept) == sorted(named)
    world.crash()
    assert outcome(world) == before
    world.close()


@pytest.mark.parametrize("world", ["heap in 2 ranges"], indirect=True)
def test_workers_keep_what_is_named_however_much_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A week of sweeps names more values than the header of a message can."""
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    named = list(world.host.named_values())
    monkeypatch.setattr(message, "MAX_HEADER_BYTES", 1500)
    some = [(f"x/counts/{at % 4:05}/{at}", 4) for at in range(100)]
    world.placement.keep([*named, *some])  # type: ignore[attr-defined]
    assert {row["key"][0] for row in world.lives()} == set(KEYS)
    world.placement.keep([])  # type: ignore[attr-defined]
    assert [key for each in world.workers for key, _ in each.store.scan("")] == []

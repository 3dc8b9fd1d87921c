"""Writers of an operator: one session at a time holds a name, and fences the one before it."""

import random
from threading import Thread

import pytest

from idlestate.sidecar.core import writer_sessions
from idlestate.sidecar.core.writer_sessions import Writer
from idlestate.sidecar.protocol.errors import DoesNotFitError, WriterFencedError
from tests.sidecar.sidecar_world import World, batch

KINDS_OF_WRITES = ("add", "put", "touch", "remove")


def counts(world: World) -> dict[str, int]:
    return {row["key"][0]: row["n"] for row in world.lives()}


@pytest.mark.parametrize("kind", KINDS_OF_WRITES)
def test_who_claims_a_name_fences_the_session_before_it(world: World, kind: str) -> None:
    """Else both would use one number, and of two writes under it only the first would count."""
    old = world.claim("till", "old")
    assert world.send("till", old, 0, "add", [("a", 1)])
    new = world.claim("till", "new")
    for _ in range(2):
        for seq in (0, 1, 7):
            with pytest.raises(
                WriterFencedError, match="newer client took over the writer name 'till'"
            ):
                world.send("till", old, seq, kind, [("b", 1)])
        world.crash()
    assert world.send("till", new, 1, kind, [("a", 1)])
    assert not world.send("till", new, 1, kind, [("a", 1)])
    assert counts(world) == {"add": {"a": 2}, "put": {"a": 1}, "touch": {"a": 1}}.get(kind, {})


def test_a_session_goes_on_where_the_name_was(world: World) -> None:
    world.write("till", 4, "add", [("a", 1)])
    writer = world.operator.writes.claim("till", "new", world.clock.now_ms())
    assert writer.seq == 4
    assert world.operator.writes.claim("nobody", "new", world.clock.now_ms()).seq == -1


def test_what_waits_for_a_border_is_fenced_like_any_other_write(world: World) -> None:
    old = world.claim("till", "old")
    first = batch(world, 0, "a")
    world.run(first)
    assert world.send("till", old, 0, "add", [("b", 1)])
    new = world.claim("till", "new")
    with pytest.raises(WriterFencedError):
        world.send("till", old, 1, "add", [("b", 10)])
    assert world.send("till", new, 1, "add", [("b", 1)])
    world.settle(first)
    assert counts(world) == {"a": 1, "b": 2}


def test_a_claim_that_is_sent_again_fences_nobody(world: World) -> None:
    session = world.claim("till", "one")
    assert world.claim("till", "one") == session
    assert world.send("till", session, 0, "add", [("a", 1)])


@pytest.mark.parametrize("session", ["one", "x.one", "1.", "9" * 5000 + ".one"])
def test_a_session_that_no_claim_has_returned_takes_no_name(world: World, session: str) -> None:
    with pytest.raises(DoesNotFitError, match="claim the writer name 'till' before writing"):
        world.send("till", session, 0, "add", [("a", 1)])
    assert world.claim("till", "one") == "1.one"


def test_a_claim_that_comes_late_gives_the_name_to_nobody(world: World) -> None:
    """Its client goes on with numbers that the newer one has used."""
    old = world.claim("till", "old")
    new = world.claim("till", "new")
    assert world.claim("till", "old") not in (old, new)
    for session in (old, new):
        with pytest.raises(WriterFencedError):
            world.send("till", session, 9, "add", [("a", 1)])
    assert world.send("till", world.claim("till", "newest"), 0, "add", [("a", 1)])


def test_a_write_whose_answer_was_lost_has_the_same_answer_again(world: World) -> None:
    session = world.claim("till", "one")
    for _ in range(2):
        assert world.send("till", session, 3, "add", [("a", 1)], "write-1")
        world.crash()
    assert world.operator.writes.duplicates == 0
    assert not world.send("till", session, 3, "add", [("a", 1)], "write-2")
    assert not world.send("till", session, 2, "add", [("a", 1)], "write-3")
    assert world.operator.writes.duplicates == 2
    assert counts(world) == {"a": 1}


def test_a_write_under_way_when_its_name_is_claimed_counts_before_that_or_never(
    world: World,
) -> None:
    old = world.claim("till", "old")
    edit = world.operator.state.executor.edit

    def slow(*args: object) -> object:
        world.claim("till", "new")
        return edit(*args)  # type: ignore[arg-type]

    world.operator.state.executor.edit = slow  # type: ignore[assignment,method-assign]
    with pytest.raises(WriterFencedError):
        world.send("till", old, 0, "add", [("a", 1)])
    assert counts(world) == {}


@pytest.mark.parametrize("world", ["heap", "rocksdb in 3 ranges"], indirect=True)
def test_of_clients_that_fight_for_a_name_every_acknowledged_write_counts_once(
    world: World,
) -> None:
    acknowledged: list[str] = []
    failed: list[BaseException] = []

    def executor(number: int) -> None:
        draw = random.Random(number)
        writes = world.operator.writes
        for turn in range(12):
            held = writes.claim("till", f"{number}-{turn}", world.clock.now_ms())
            for more in range(1, draw.randint(2, 6)):
                key = f"{number}-{turn}-{more}"
                try:
                    if world.send("till", held.session, held.seq + more, "add", [(key, 1)]):
                        acknowledged.append(key)
                    else:
                        failed.append(AssertionError(f"{key} is told to be a duplicate"))
                except WriterFencedError:
                    break

    threads = [Thread(target=executor, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert counts(world) == dict.fromkeys(acknowledged, 1)


def test_a_writer_that_was_forgotten_goes_on_writing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else programs that are given a new name at each start would be shut out one day, for good."""
    monkeypatch.setattr(writer_sessions, "MAX_WRITERS", 2)
    day_ms = 86_400_000
    session = world.claim("first", "first")
    world.send("first", session, 5, "add", [("a", 1)])
    world.clock.advance(1)
    world.write("second", 5, "add", [("a", 1)])
    world.clock.advance(day_ms - 2)
    for _ in range(2):
        with pytest.raises(DoesNotFitError, match="has 2 writers, all active within a day"):
            world.claim("third", "third")
    world.clock.advance(1)
    assert world.write("third", 0, "add", [("a", 1)])
    world.clock.advance(day_ms)
    for _ in range(2):
        last = [world.operator.writes._writers[each].seq for each in ("first", "second", "third")]
        assert last == [-1, 5, 0]
        world.crash()
    assert world.send("first", session, 6, "add", [("a", 1)])


def test_a_writer_of_an_older_version_keeps_its_number() -> None:
    assert Writer.decode(b"17 1000") == Writer(17, 1000)
    assert Writer.decode(b"17") == Writer(17)
    writer = Writer(17, 1000).claimed("one", 2000)
    assert Writer.decode(writer.encode()) == writer == Writer(17, 2000, "1.one")

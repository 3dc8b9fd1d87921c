"""The lives of a shard come in parts of bounded size, and together they are all of them."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from idlestate.sidecar.core import local_shard_executor
from idlestate.sidecar.core.data_calls import Calls
from idlestate.sidecar.protocol.message import Message
from idlestate.timers.steady_clock import SteadyClock
from tests.backends.law_runner import plain_rows
from tests.sidecar.sidecar_world import KEYS, RULE, SHARDS, SPEC, UID, World

MANY = [f"key-{number}" for number in range(300)]
Found = dict[str, Any]


@pytest.fixture
def chunk_bytes(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(local_shard_executor, "CHUNK_BYTES", 2000)
    return 2000


def parts_of(world: World, shard: int) -> Iterator[pa.Table]:
    """A shard as a client asks for it, a call per part."""
    calls = Calls(world.host, SteadyClock(world.clock))
    header: dict[str, Any] = {"uid": UID, "shard": shard}
    while header.get("since", 0) is not None:
        answer = Message.decode(calls.table.answer("lives", Message(header).encode()))
        yield pa.ipc.open_stream(answer.parts[0]).read_all()
        header["since"] = answer.header["next"]


def parts(world: World) -> list[pa.Table]:
    return [part for shard in range(SHARDS) for part in parts_of(world, shard)]


def rows(found: list[pa.Table]) -> list[Found]:
    return [row for part in found for row in plain_rows(SPEC, part)]


def fill(world: World) -> None:
    """Many keys in several runs, some of them closed."""
    world.write("w", 0, "add", [(key, 1) for key in MANY])
    world.clock.advance(RULE.idle_max_ms - 1)
    for seq, begin in enumerate(range(20, 300, 40), start=1):
        world.write("w", seq, "add", [(key, 2) for key in MANY[begin : begin + 20]])
    world.write("w", 100, "remove", [(key, None) for key in MANY[30:35]])
    world.clock.advance(1)
    world.sweep()


def test_parts_are_together_what_one_message_has(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world)
    whole = parts(world)
    assert len(whole) == SHARDS
    assert 100 < len(rows(whole)) < len(MANY)
    for chunk_bytes in (1, 100, 2000):
        monkeypatch.setattr(local_shard_executor, "CHUNK_BYTES", chunk_bytes)
        some = parts(world)
        assert len(some) > 2 * SHARDS
        assert rows(some) == rows(whole)


def test_no_part_is_much_larger_than_a_call_though_some_lives_are(
    world: World, chunk_bytes: int
) -> None:
    """By the mean size of a row, a part that has several of these would be ten times as large."""
    large = [f"{number}-{'x' * 1000}" for number in range(40)]
    world.write("w", 0, "add", [(key, 1) for key in [*MANY * 4, *large]])
    found = parts(world)
    assert max(part.nbytes for part in found) <= 2 * chunk_bytes
    assert {row["key"][0] for row in rows(found)} == {*MANY, *large}


@pytest.mark.usefixtures("chunk_bytes")
def test_an_operator_without_lives_has_one_empty_part_per_shard(world: World) -> None:
    assert [len(part) for part in parts(world)] == [0] * SHARDS


@pytest.mark.usefixtures("chunk_bytes")
def test_while_others_write_and_runs_are_merged_every_life_that_stays_is_there_once(
    world: World,
) -> None:
    fill(world)
    before = {row["key"][0] for row in rows(parts(world))}
    removed = sorted(before)[::10]
    found: list[Found] = []
    seq = 200
    for shard in range(SHARDS):
        for part in parts_of(world, shard):
            found += rows([part])
            world.write("w", seq, "add", [(KEYS[seq % len(KEYS)], 1), (f"new-{seq}", 1)])
            world.write("w", seq + 1, "remove", [(key, None) for key in removed[seq % 3 :: 3]])
            world.operator.sweeper.compact()
            seq += 2
    seen = [row["key"][0] for row in found]
    assert seq > 200 + 2 * 2 * SHARDS
    assert len(seen) == len(set(seen))
    assert before - set(removed) <= set(seen)
    assert set(seen) - before <= {*KEYS, *(f"new-{at}" for at in range(200, seq))}

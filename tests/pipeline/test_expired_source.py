"""The reader of expired records, without Spark around it and without a network below it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.pipeline.expired_source import ExpiredReader
from idlestate.pipeline.sidecar_link import SidecarLink
from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.client.client import SidecarClient
from idlestate.sidecar.core.data_calls import Calls
from idlestate.sidecar.core.one_way_writes import Write
from idlestate.sidecar.core.shard_executor import SentRows
from idlestate.sidecar.protocol.connection import Connection
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.protocol.transfers import stream_of
from idlestate.timers.steady_clock import SteadyClock
from tests.sidecar.sidecar_world import KEYS, RULE, UID, World, policy_processing

OPTIONS = {"sidecar": "unix:nowhere", "uid": UID, "consumer": "mailer"}


class Wire:
    """A connection to the world's sidecar."""

    def __init__(self, world: World) -> None:
        self._table = Calls(world.host, SteadyClock(world.clock)).table

    def call(self, name: str, header: Any) -> Message:
        return Message.decode(self._table.answer(name, Message(header).encode()))

    def close(self) -> None:
        pass


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World("heap", tmp_path / "state")
    monkeypatch.setattr(SidecarLink, "connect", lambda _: Wire(made))
    yield made
    made.close()


def end_lives(world: World, seq: int) -> None:
    world.write("w", seq, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()


def read(reader: ExpiredReader, start: dict[str, int]) -> list[str]:
    parts = reader.partitions(start, reader.latestOffset(start, None))  # type: ignore[arg-type]
    return [row["k"] for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def test_a_consumer_that_comes_later_begins_with_what_is_kept(world: World) -> None:
    end_lives(world, 0)
    assert world.operator.trim(world.clock.now_ms()) == len(KEYS)
    late = ExpiredReader(OPTIONS, ["k"])
    assert read(late, late.initialOffset()) == []
    end_lives(world, 1)
    last = ExpiredReader(OPTIONS, ["k"])
    assert last.initialOffset() == {"seq": len(KEYS)}
    assert sorted(read(last, last.initialOffset())) == sorted(KEYS)


def test_what_a_consumer_has_planned_to_read_stays_though_all_others_have_it(
    world: World,
) -> None:
    end_lives(world, 0)
    world.operator.acknowledge("other", len(KEYS))
    reader = ExpiredReader(OPTIONS, ["k"])
    start = reader.initialOffset()
    assert world.operator.trim(0) == 0
    assert sorted(read(reader, start)) == sorted(KEYS)
    reader.commit({"seq": len(KEYS)})
    assert world.operator.trim(0) == len(KEYS)


def test_records_that_are_gone_are_told_of_in_words(world: World) -> None:
    end_lives(world, 0)
    reader = ExpiredReader(OPTIONS, ["k"])
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, None))  # type: ignore[arg-type]
    world.operator.trim(world.clock.now_ms())
    with pytest.raises(RuntimeError, match=r"idlestate: expired records 0 to 11 .* are gone"):
        list(reader.read(parts[0]))


def test_a_column_of_the_users_may_have_the_name_of_the_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = {"seq": pa.string()}
    spec = TableSpec(tuple(types.items()), aggregation({"n": "count"}, types))
    declaration = Declaration.of("runs", spec, TimeDomain.PROCESSING, 1)
    operator = world.host.declare(declaration, policy_processing(RULE))
    rows = stream_of(pa.table({"seq": KEYS}))
    operator.writes.take(Write("w", "", 0, "1", "add", SentRows(rows)), world.clock.now_ms())
    world.clock.advance(RULE.idle_max_ms)
    operator.sweeper.sweep(world.clock.now_ms(), world.clock, 1000)
    reader = ExpiredReader(OPTIONS | {"uid": "runs"}, ["n", "seq"])
    (part,) = reader.partitions({"seq": 0}, {"seq": len(KEYS)})
    found = [row for batch in reader.read(part) for row in batch.to_pylist()]
    assert sorted(row["seq"] for row in found) == sorted(KEYS)
    wire = Wire(world)
    monkeypatch.setattr(Connection, "call", lambda _, *call: wire.call(*call))
    with SidecarClient("unix:nowhere", "runs") as client:
        (table,) = client.expired(1)
    assert table.column(table.num_columns - 1).to_pylist() == [*range(1, len(KEYS))]


def test_what_the_sidecar_refuses_reaches_the_person(world: World) -> None:
    reader = ExpiredReader(OPTIONS | {"uid": "other"}, ["k"])
    with pytest.raises(RuntimeError, match=r"idlestate: .*has no operator 'other'"):
        reader.initialOffset()

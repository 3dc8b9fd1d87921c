"""An operator of a sidecar that goes on with other aggregates."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from idlestate.config.loading import parse
from idlestate.sidecar.client.client import SidecarClient
from idlestate.sidecar.core.one_way_writes import Write
from idlestate.sidecar.protocol.connection import Connection
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DamagedDirectoryError, DoesNotFitError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.server.declared_operators import declare_all
from tests.sidecar.changing_operator import (
    AFTER,
    POLICY,
    RENAMED,
    add,
    crash,
    declaration,
    lives,
    unowned,
)
from tests.sidecar.kinds_of_worlds import SHORT_AND_LONG_KINDS
from tests.sidecar.sidecar_world import (
    RULE,
    TEXTS,
    UID,
    World,
)


@pytest.fixture(params=SHORT_AND_LONG_KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    yield from unowned(request.param, tmp_path / "state")


def test_state_goes_on_with_other_aggregates_and_so_it_does_after_a_crash(world: World) -> None:
    add(world, 0, k=["a", "b"], v=[5, 6])
    world.host.declare(declaration(), POLICY)
    assert lives(world) == {"a": (1, 5, None, 0), "b": (1, 6, None, 0)}
    add(world, 1, k=["a", "c"], v=[9, 1], w=[3, None])
    after = {"a": (2, 9, 3, 1), "b": (1, 6, None, 0), "c": (1, 1, None, 0)}
    assert lives(world) == after
    crash(world)
    assert lives(world) == after
    world.host.declare(declaration(), POLICY)  # as a client does that is started again
    assert lives(world) == after
    for at, shard in enumerate(world.operator.state.shards):
        if shard.runs:
            executor, record = world.operator.state.executor, world.operator.record
            world.operator.sweeper._step(executor, record, at, shard, None)
    assert lives(world) == after


def test_writes_have_the_columns_of_today(world: World) -> None:
    world.host.declare(declaration(), POLICY)
    with pytest.raises(DoesNotFitError, match="the rows have no column w"):
        add(world, 0, k=["a"], v=[1])


def test_a_wider_column_is_widened(world: World) -> None:
    texts = {"top": "max(v)"}
    world.host.drop(UID)
    world.operator = world.host.declare(declaration(texts, {}, v=pa.int16()), POLICY)
    add(world, 0, k=["a", "b"], v=[5, 6])
    with pytest.raises(DoesNotFitError, match="Integer value 70000 not in range"):
        add(world, 1, k=["a"], v=[70_000])
    world.host.declare(declaration(texts, {}), POLICY)
    add(world, 1, k=["a"], v=[70_000])
    assert lives(world) == {"a": (70_000,), "b": (6,)}


def test_what_cannot_be_taken_over_is_refused_and_nothing_changes(world: World) -> None:
    add(world, 0, k=["a"], v=[5])
    before = world.operator.record
    for wrong, reason in (
        (declaration(TEXTS | {"top": "min(v)"}, {}), "aggregate top was max"),
        (declaration(TEXTS, {}, v=pa.int16()), "column v was int64, is now int16"),
        (replace(declaration(), shards=2), "shards was 4, is now 2"),
        (declaration(AFTER, {"events": "m"}), "the state has no aggregate m"),
    ):
        with pytest.raises(DoesNotFitError, match=reason):
            world.host.declare(wrong, POLICY)
        with pytest.raises(DoesNotFitError, match=reason):
            world.host.declare_all([(wrong, POLICY)])
    assert world.operator.record == before
    assert lives(world) == {"a": (1, 5, 5)}


def test_operators_of_a_file_change_all_or_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = replace(declaration(TEXTS, {}), uid="second")
    world.host.declare(second, POLICY)
    add(world, 0, k=["a"], v=[5])
    wanted = [(declaration(), POLICY), (replace(declaration(), uid="second"), POLICY)]

    def full(_changes: Any) -> None:
        raise DamagedDirectoryError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(world.store, "write", full)
        with pytest.raises(DamagedDirectoryError):
            world.host.declare_all(wanted)
    assert lives(world) == {"a": (1, 5, 5)}
    world.host.declare_all(wanted)
    assert lives(world) == {"a": (1, 5, None, 0)}
    assert world.host["second"].record.declaration.definition.next_id == 5


FILE = """
version: 1
policies:
  soon: {{idle: {{min: 100ms, max: 150ms}}, min_gap: 1ms, time: processing}}
sidecar:
  directory: state
  operators:
    counts:
      columns: {{k: string, v: bigint, w: bigint}}
      key: [k]
      aggregates: {aggregates}
      renamed: {{{renamed}}}
      policy: soon
"""


def test_a_file_says_what_was_renamed(world: World) -> None:
    add(world, 0, k=["a"], v=[5])
    changed = parse(FILE.format(aggregates=json.dumps(AFTER), renamed="events: n").encode())
    declare_all(world.host, changed)
    assert lives(world) == {"a": (1, 5, None, 0)}
    wrong = parse(FILE.format(aggregates=json.dumps(AFTER | {"n": "sum(v)"}), renamed="").encode())
    declare_all(world.host, wrong)  # as before, and an `n` that begins anew
    assert lives(world) == {"a": (1, 5, None, 0, None)}


def test_a_client_says_what_was_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []

    def call(_connection: Any, _name: str, header: Any = None, *_parts: bytes) -> Message:
        calls.append(header)
        return Message({})

    monkeypatch.setattr(Connection, "call", call)
    with SidecarClient("unix:nowhere", UID) as client:
        client.declare(
            key={"k": pa.string()},
            columns={"v": pa.int64(), "w": pa.int64()},
            aggregates=AFTER,
            policy=POLICY,
            renamed=RENAMED,
        )
    assert Declaration.from_json(calls[-1]["declaration"]) == declaration()


def test_expired_records_of_before_are_read_with_the_columns_of_today(world: World) -> None:
    add(world, 0, k=["a"], v=[5])
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    world.host.declare(declaration(), POLICY)
    add(world, 1, k=["b"], v=[7], w=[8])
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    found = world.operator.expired(0, None, 100)
    assert found is not None
    names = ["k", *AFTER]
    assert found.select(names).to_pylist() == [
        {"k": "a", "events": 1, "top": 5, "most": None, "seen": 0},
        {"k": "b", "events": 1, "top": 7, "most": 8, "seen": 1},
    ]
    assert found.schema.names[: len(names)] == names


def test_a_write_that_was_looked_at_by_the_definition_before_is_looked_at_again(
    world: World,
) -> None:
    """Else what it makes of a life would lack what others have added since."""
    world.host.declare(declaration(TEXTS | {"one": "count"}, {}), POLICY)
    add(world, 0, k=["a"], v=[5])
    state, texts = world.operator.state, TEXTS | {"one": "count", "two": "count"}
    executor = state.executor

    class Slow:
        """Has the definition changed, and another write taken, while it looks at one."""

        def __getattr__(self, name: str) -> Any:
            return getattr(executor, name)

        def edit(self, *given: Any) -> Any:
            found = executor.edit(*given)
            state.executor = executor
            world.host.declare(declaration(texts, {}), POLICY)
            other = Write("x", world.claim("x", "x"), 0, "id", "add", given[1])
            world.operator.writes.take(other, world.clock.now_ms())
            return found

    slow: Any = Slow()
    state.executor = slow
    add(world, 1, k=["a"], v=[6])
    assert lives(world) == {"a": (3, 17, 6, 3, 2)}

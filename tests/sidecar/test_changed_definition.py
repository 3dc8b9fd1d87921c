"""An operator of a sidecar that goes on with other aggregates."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.keyed_records import Steps
from idlestate.backends.shards.packet import encode_packet
from idlestate.backends.shards.shard_ranges import shard_bounds
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.config.loading import parse
from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.client.client import SidecarClient
from idlestate.sidecar.core.one_way_writes import Write
from idlestate.sidecar.core.operator_record import Owner
from idlestate.sidecar.core.shard_work import Given
from idlestate.sidecar.protocol.connection import Connection
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DamagedError, DoesNotFitError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.protocol.transfers import stream_of
from idlestate.sidecar.protocol.worker_ranges import range_of
from idlestate.sidecar.server.declared_operators import declare_all
from tests.sidecar.sidecar_world import (
    CHECKPOINT,
    KINDS,
    PARTITIONS,
    QUERY,
    RULE,
    SHARDS,
    TEXTS,
    UID,
    Planned,
    World,
    batch,
    lives_in_parts,
    policy_processing,
)

POLICY = policy_processing(RULE)
COLUMNS = {"k": pa.string(), "v": pa.int64(), "w": pa.int64()}
AFTER = {"events": "count", "top": "max(v)", "most": "max(w)", "seen": "count(w)"}
"""`n` is called `events`, `total` is dropped, `most` and `seen` are added."""
RENAMED = {"events": "n"}


def declaration(
    texts: Mapping[str, str] = AFTER, renamed: Mapping[str, str] = RENAMED, **types: pa.DataType
) -> Declaration:
    spec = TableSpec((("k", pa.string()),), aggregation(texts, COLUMNS | types))
    return Declaration.of(UID, spec, TimeDomain.PROCESSING, SHARDS, renamed)


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """An operator that no query owns."""
    made = World(request.param, tmp_path / "state")
    made.operator.batches.release()
    yield made
    made.close()


def crash(world: World) -> None:
    """The process starts again, with the file that it has now."""
    kept = world.operator.record.declaration
    world.close()
    world.declaration = kept
    world.open()


def add(world: World, seq: int, kind: str = "add", **columns: list[Any]) -> None:
    types = {name: COLUMNS[name] for name in columns}
    rows = pa.table({name: pa.array(each, types[name]) for name, each in columns.items()})
    session = world.claim("w", "w")
    write = Write("w", session, seq, uuid4().hex, kind, Given(stream_of(rows)))
    world.operator.writes.take(write, world.clock.now_ms())


def lives(world: World) -> dict[str, tuple[Any, ...]]:
    """Keys with their aggregates, in the order of the definition."""
    state = world.operator.state
    names = [name for name, _ in state.spec.kind.results]
    return {
        row["k"]: tuple(row[name] for name in names)
        for at, shard in enumerate(state.shards)
        for part in lives_in_parts(state.work, shard, at, state.record.policy)
        for row in part.to_pylist()
    }


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
            world.operator.sweeper._step(world.operator.record, at, shard, None)
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
        raise DamagedError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(world.store, "write", full)
        with pytest.raises(DamagedError):
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
    work = state.work

    class Slow:
        """Has the definition changed, and another write taken, while it looks at one."""

        def __getattr__(self, name: str) -> Any:
            return getattr(work, name)

        def edit(self, *given: Any) -> Any:
            found = work.edit(*given)
            state.work = work
            world.host.declare(declaration(texts, {}), POLICY)
            other = Write("x", world.claim("x", "x"), 0, "id", "add", given[1])
            world.operator.writes.take(other, world.clock.now_ms())
            return found

    slow: Any = Slow()
    state.work = slow
    add(world, 1, k=["a"], v=[6])
    assert lives(world) == {"a": (3, 17, 6, 3, 2)}


# ---- owned by a query


def change(world: World, run_id: str = "run-1") -> None:
    """The query starts with the other aggregates."""
    made = world.operator.record.made
    world.host.declare(declaration(), POLICY, Owner(QUERY, run_id, CHECKPOINT), made)


def packets(world: World, rows: Mapping[str, list[Any]]) -> list[bytes]:
    """Records as the query packs them by what the operator is now."""
    spec = world.operator.state.spec
    columns = {name: pa.array(rows[name], kind) for name, kind in spec.kind.inputs.items()}
    n = len(rows["k"])
    keys = [pa.array(rows["k"], pa.string())]
    steps = Steps.from_records(spec, keys, np.zeros(n, dtype=np.int64), columns)
    bounds = shard_bounds(steps.hashes, SHARDS).tolist()
    return [encode_packet(steps.slice(bounds[at], bounds[at + 1])) for at in range(SHARDS)]


def run(world: World, planned: Planned, rows: Mapping[str, list[Any]]) -> None:
    """All tasks of a batch."""
    cells, stages = packets(world, rows), world.stages()
    for partition in range(PARTITIONS):
        attempt = world.attempt(planned, partition, uuid4().hex if not partition else "e")
        attempt = replace(attempt, execution_id=f"{world.run_id}-{planned.batch_id}")
        world.operator.batches.open(attempt)
        handle, ranges = uuid4().hex, list[int]()
        for shard in attempt.shards:
            at = range_of(shard, SHARDS, len(stages))
            stages[at].add(handle, (shard, 0, 0), cells[shard], is_first=at not in ranges)
            ranges.append(at)
        world.operator.batches.prepare(attempt, handle, ranges, {})


def settle(world: World, planned: Planned) -> None:
    world.commits.add(planned.batch_id)
    world.operator.batches.settle()


@pytest.fixture
def owned(world: World) -> World:
    """An operator of which a query has committed batch 0 by the definition before."""
    world.begin()
    first = batch(world, 0)
    run(world, first, {"k": ["a", "b"], "v": [1, 2]})
    settle(world, first)
    return world


def test_only_the_query_changes_what_it_owns(owned: World) -> None:
    made = owned.operator.record.made
    for query in (None, Owner("query-2", "run-1", CHECKPOINT)):
        with pytest.raises(DoesNotFitError, match="idlestate operator release counts"):
            owned.host.declare(declaration(), POLICY, query, made)
    with pytest.raises(DoesNotFitError, match="which alone changes its definition"):
        owned.host.declare_all([(declaration(), POLICY)])
    change(owned)
    assert lives(owned) == {"a": (1, 1, None, 0), "b": (1, 2, None, 0)}


def test_a_query_changes_no_operator_that_its_checkpoint_does_not_know(world: World) -> None:
    """It may be another's by chance."""
    query = Owner(QUERY, "run-1", CHECKPOINT)
    for made in (None, "another"):
        with pytest.raises(DoesNotFitError, match="has not used it before"):
            world.host.declare(declaration(), POLICY, query, made)
    world.host.declare(world.operator.record.declaration, POLICY, query)
    change(world)
    assert world.operator.state.spec.kind.results[0][0] == "events"


def test_tasks_of_the_run_before_are_refused_from_the_change_on(owned: World) -> None:
    """They pack rows by the definition before."""
    change(owned)
    with pytest.raises(DoesNotFitError, match="was superseded"):
        owned.task(batch(owned, 1, "a"), 0, "late")


@pytest.mark.parametrize("crashes", [False, True])
def test_a_batch_that_was_planned_before_the_change_is_replayed_by_it(
    owned: World, crashes: bool
) -> None:
    planned = batch(owned, 1)
    run(owned, planned, {"k": ["a", "c"], "v": [5, 3]})
    add(owned, 0, k=["b"], v=[100])  # waits for the batch
    if crashes:
        crash(owned)
    change(owned)
    owned.begin("run-1")
    run(owned, planned, {"k": ["a", "c"], "v": [5, 3], "w": [7, 8]})
    settle(owned, planned)
    assert owned.operator.sizes().set_aside == 0
    assert lives(owned) == {"a": (2, 5, 7, 1), "b": (2, 100, None, 0), "c": (1, 3, 8, 1)}


@pytest.mark.parametrize("crashes", [False, True])
def test_a_batch_that_was_committed_before_the_change_counts_as_it_was(
    owned: World, crashes: bool
) -> None:
    """Also where the sidecar learns of it with the change or later, and of what it closed."""
    planned = batch(owned, 1)
    owned.clock.advance(RULE.idle_max_ms)
    planned = replace(planned, time_ms=owned.clock.now_ms())
    run(owned, planned, {"k": ["a", "c"], "v": [5, 3]})
    owned.commits.add(1)
    if crashes:
        crash(owned)
    change(owned)
    owned.begin("run-1")
    assert lives(owned) == {"a": (1, 5, None, 0), "c": (1, 3, None, 0)}
    found = owned.operator.expired(0, None, 100)
    assert found is not None
    rows = sorted((row["k"], row["events"], row["seen"]) for row in found.to_pylist())
    assert rows == [("a", 1, 0), ("b", 1, 0)]

"""A query goes on with other aggregates over an operator of a sidecar that it owns."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.shards.packet_codec import encode_packet
from idlestate.backends.shards.shard_ranges import shard_bounds
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.sidecar.core.operator_record import Owner
from idlestate.sidecar.core.shard_executor import StepResult
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DoesNotFitError
from idlestate.sidecar.protocol.worker_ranges import range_of
from tests.sidecar.changing_operator import POLICY, add, crash, declaration, lives, unowned
from tests.sidecar.kinds_of_worlds import SHORT_AND_LONG_KINDS
from tests.sidecar.sidecar_world import (
    CHECKPOINT,
    PARTITIONS,
    QUERY,
    RULE,
    SHARDS,
    Planned,
    World,
    batch,
)


@pytest.fixture(params=SHORT_AND_LONG_KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    yield from unowned(request.param, tmp_path / "state")


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
    assert owned.operator.sizes().quarantined == 0
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


def restart(world: World, after: Declaration, run_id: str) -> None:
    """A run of the query with another definition."""
    made = world.operator.record.made
    world.host.declare(after, POLICY, Owner(QUERY, run_id, CHECKPOINT), made)
    world.begin(run_id)


@pytest.mark.parametrize("crashes", [False, True])
def test_a_change_under_which_nothing_was_written_can_be_taken_back(
    owned: World, crashes: bool
) -> None:
    """The query died before the first batch after the change."""
    first, had = owned.operator.record.declaration, lives(owned)
    most = declaration({"most": "max(w)"}, {})
    for at, after in enumerate((declaration(), most, first)):
        restart(owned, after, f"run-{at + 1}")
        if crashes:
            crash(owned)
    assert (owned.operator.record.declaration, lives(owned)) == (first, had)


@pytest.mark.parametrize("crashes", [False, True])
def test_a_change_can_be_taken_back_although_a_batch_from_before_it_was_committed_after_it(
    owned: World, crashes: bool
) -> None:
    """The sidecar learns only with the change that the last batch before it was committed."""
    first = owned.operator.record.declaration
    planned = batch(owned, 1)
    run(owned, planned, {"k": ["a", "c"], "v": [5, 3]})
    owned.commits.add(1)
    restart(owned, declaration(), "run-1")
    assert owned.operator.record.committed == 1
    if crashes:
        crash(owned)
    restart(owned, first, "run-2")
    assert owned.operator.record.declaration == first
    assert lives(owned) == {"a": (2, 6, 5), "b": (1, 2, 2), "c": (1, 3, 3)}


def test_a_sweep_under_a_change_that_is_taken_back_meanwhile_starts_again(
    owned: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its expire rows lack what the change had dropped."""
    first = owned.operator.record.declaration
    restart(owned, declaration(), "run-1")
    executor = owned.operator.state.executor
    close = executor.close

    def close_late(*given: Any) -> StepResult:
        closed = close(*given)
        if owned.operator.state.executor is executor:
            restart(owned, first, "run-2")
        return closed

    monkeypatch.setattr(executor, "close", close_late)
    owned.clock.advance(RULE.idle_max_ms)
    owned.sweep()
    found = owned.operator.expired(0, None, 100)
    assert found is not None
    assert sorted((row["k"], row["n"], row["total"]) for row in found.to_pylist()) == [
        ("a", 1, 1),
        ("b", 1, 2),
    ]


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_change_under_which_rows_were_written_is_another_change_to_take_back(
    owned: World, is_committed: bool
) -> None:
    """New aggregates get ids that no written row has."""
    first = owned.operator.record.declaration
    restart(owned, declaration(), "run-1")
    planned = batch(owned, 1)
    run(owned, planned, {"k": ["a"], "v": [6], "w": [7]})
    if is_committed:
        settle(owned, planned)
    changed = owned.operator.record.declaration.definition
    restart(owned, first, "run-2")
    after = owned.operator.record.declaration.definition
    ids, used = ({name: at for name, _, at in each.aggregates} for each in (after, changed))
    assert ids["top"] == used["top"]
    assert min(ids["n"], ids["total"]) >= changed.next_id

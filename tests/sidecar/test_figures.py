"""A sidecar's operators have the same figures as those of pipelines."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from idlestate.backends.shards.row_counts import RowCounts
from idlestate.retention.policy import Policy
from idlestate.sidecar.core.operator_record import OperatorRecord
from idlestate.sidecar.server.operator_snapshot import OperatorSnapshot
from tests.reference import Rule
from tests.sidecar.sidecar_world import KEYS, ORIGIN_MS, RULE, World, batch


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World("heap", tmp_path / "state")
    yield made
    made.close()


def test_they_are_those_of_the_newest_batch(world: World) -> None:
    world.clock.advance(7)
    planned = batch(world, 3, *KEYS)
    attempts = [world.attempt(planned, partition, "e", policy_version=5) for partition in range(2)]
    for attempt in attempts:
        world.operator.batches.open(attempt)
        counts = {at: RowCounts(input=9, late=2, malformed=1).as_dict() for at in attempt.shards}
        handle = f"handle-{attempt.partition}"
        world.operator.batches.prepare(attempt, handle, [], counts)
    world.settle(planned)
    world.clock.advance(1)
    figures = OperatorSnapshot(world.host).at(world.clock.now_ms())[0]
    assert (figures.batch_id, figures.batches, figures.batch_time_ms) == (3, 4, ORIGIN_MS + 7)
    assert (figures.input_rows, figures.late_rows) == (36, 8)
    assert figures.rejected_rows["malformed"] == figures.rejected_total == 4
    assert figures.policy_version == 5
    assert figures.policy.idle_max_ms == RULE.idle_max_ms


def test_what_is_written_directly_counts_as_keys(world: World) -> None:
    world.write("w", 0, "add", list(zip(KEYS, itertools.repeat(1))))
    figures = OperatorSnapshot(world.host).at(world.clock.now_ms())[0]
    assert figures.live_keys == figures.keys_created == len(KEYS)
    assert figures.batch_id == -1
    assert figures.batch_time_ms is None
    assert figures.next_end_ms == ORIGIN_MS + RULE.idle_max_ms


def test_every_changed_policy_has_the_next_version(world: World) -> None:
    versions = []
    for rule in (RULE, Rule(ttl_ms=3), Rule(ttl_ms=3), Rule()):
        world.reload(rule)
        figures = OperatorSnapshot(world.host).at(world.clock.now_ms())[0]
        versions.append(figures.policy_version)
    assert versions == [1, 2, 2, 3]
    assert figures.policy.is_unbounded


def test_a_record_of_an_earlier_version_is_still_read(world: World) -> None:
    world.operator.batches.open(world.attempt(batch(world, 0, *KEYS), 0, "e"))
    record = world.operator.record
    text = record.encode().decode()
    for name in ("policy_version", "batch_time_ms"):
        assert f'"{name}": ' in text
    older = text.replace('"policy_version": 1, ', "").replace('"batch_time_ms": 0, ', "")
    read = OperatorRecord.decode(older.replace(', "policy_version": 1', "").encode())
    assert replace(read, open=None) == replace(record, open=None)
    assert isinstance(read.policy, Policy)

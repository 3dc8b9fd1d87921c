"""A sidecar's operators have the same figures as those of pipelines."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.row_counts import RowCounts
from idlestate.metrics import families
from idlestate.metrics.families import Name
from idlestate.metrics.history import SLOT_MS, SLOTS_A_DAY, History, HistoryFile
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.rocksdb_metrics import PROPERTIES
from idlestate.metrics.sidecar_metrics import OF_SIDECAR
from idlestate.retention.policy import Policy
from idlestate.sidecar.core.operator_record import OperatorRecord
from idlestate.sidecar.server.operator_snapshot import OperatorSnapshot
from idlestate.timers.clock import SystemClock
from tests.metrics.some_operators import OF_DRIVERS, OF_TWO_INPUTS
from tests.reference import Rule
from tests.sidecar.sidecar_process import OPERATOR, UID, wait_for
from tests.sidecar.sidecar_world import KEYS, ORIGIN_MS, RULE, World, batch, rows_of
from tests.sidecar.test_workers import rows_of as row_table


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
        rows = {"": RowCounts(input=9, late=2, malformed=1)}
        counts = dict.fromkeys(attempt.shards, rows)
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
    older = text
    for fact in ('"policy_version": 1, ', '"batch_time_ms": 0, ', ', "before": null'):
        assert fact in text
        older = older.replace(fact, "")
    read = OperatorRecord.decode(older.replace(', "policy_version": 1', "").encode())
    assert replace(read, open=None) == replace(record, open=None)
    assert isinstance(read.policy, Policy)


def of(world: World) -> OperatorStatistics:
    return OperatorSnapshot(world.host).at(world.clock.now_ms())[0]


def counted(world: World, name: Name) -> int:
    return sum(of(world).durations[name].counts)


def test_a_sweep_that_leaves_nothing_overdue_is_the_last_success(world: World) -> None:
    assert of(world).swept_ms == 0
    world.sweep()
    assert of(world).swept_ms == world.clock.now_ms()
    assert counted(world, families.SWEEP_DURATION) == 0, "there was nothing to sweep"
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    assert of(world).swept_ms == world.clock.now_ms()
    assert counted(world, families.SWEEP_DURATION) == 1


def test_a_sweep_that_an_open_batch_holds_up_is_no_success(world: World) -> None:
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.operator.batches.open(world.attempt(batch(world, 0, *KEYS), 0, "e"))
    world.clock.advance(RULE.idle_max_ms)
    world.sweep()
    assert of(world).swept_ms == 0
    assert counted(world, families.SWEEP_DURATION) == 0


def test_a_sweep_of_many_slices_counts_once(world: World) -> None:
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.clock.advance(RULE.idle_max_ms)
    world.operator.sweeper.pace.rows = 1
    slices = 1
    while world.operator.sweeper.sweep(world.clock.now_ms(), world.clock, 0):
        assert of(world).swept_ms == 0
        world.clock.advance(5)
        slices += 1
    taken = of(world).durations[families.SWEEP_DURATION]
    assert slices > 1
    assert (sum(taken.counts), taken.sum) == (1, pytest.approx((slices - 1) * 0.005))


def test_look_ups_are_counted(world: World) -> None:
    world.operator.look_up(rows_of([("key-1", None)], of_keys=True), world.clock.now_ms())
    assert counted(world, families.LOOKUP_DURATION) == 1


def test_compactions_count_and_the_last_that_found_nothing_is_a_success(world: World) -> None:
    keys = [f"{number}" for number in range(5_000)]
    world.write("w", 0, "add", [(key, 1) for key in keys])
    world.clock.advance(60)
    world.write("w", 1, "add", [(key, 1) for key in keys[:500]])
    world.clock.advance(90)
    world.sweep()
    assert of(world).compacted_ms == 0
    while world.operator.sweeper.compact():
        pass
    assert counted(world, families.COMPACTION_DURATION) > 0
    assert of(world).compacted_ms == world.clock.now_ms()


def with_history(directory: Path) -> None:
    """Three days of the operator, up to now, so that there are forecasts."""
    now = SystemClock().now_ms() // SLOT_MS
    slots = np.arange(now - 3 * SLOTS_A_DAY, now + 1)
    keys = 100 + slots - slots[0]
    History(np.stack([slots, keys, 50 * keys], axis=1)).save(
        HistoryFile(Folder(str(directory / "history")), f"{UID}.npy")
    )


def test_forecasts_of_a_sidecar_survive_a_restart(made: Any) -> None:
    sidecar = made(operators={UID: OPERATOR | {"budget": {"keys": 1000}}})
    with_history(sidecar.folder / "state")
    forecast = f'idlestate_forecast_live_keys{{operator="{UID}",horizon="24h",bound="high"}} '
    for _ in range(2):
        sidecar.start()
        text = sidecar.ask("/metrics")[1]
        # What the history ends with changes with the first size of this process: no key.
        assert forecast in text
        assert f'idlestate_budget_full_seconds{{operator="{UID}",budget="keys"}}' in text
        assert sidecar.stop() == 0


@pytest.mark.parametrize(("backend", "workers"), [("heap", 1), ("rocksdb", 1), ("rocksdb", 2)])
def test_every_metric_of_a_sidecar_has_samples(made: Any, backend: str, workers: int) -> None:
    operator = OPERATOR | {"budget": {"keys": 1000, "bytes": "1GB"}}
    sidecar = made(workers=workers, backend=backend, operators={UID: operator})
    with_history(sidecar.folder / "state")
    sidecar.start()
    with sidecar.client() as client:
        client.add_many(row_table(100))
    if workers > 1:
        wait_for(lambda: "idlestate_rocksdb_live" in sidecar.ask("/metrics")[1])
    exported = text_string_to_metric_families(sidecar.ask("/metrics")[1])
    shown = {family.name for family in exported if family.samples}
    every = {*families.OF_OPERATOR, *OF_SIDECAR, families.OVERFLOWED_SERIES, families.BUILD_INFO}
    every -= OF_DRIVERS | OF_TWO_INPUTS | (set(PROPERTIES) if backend == "heap" else set())
    assert shown == {name.name.removesuffix("_total") for name in every}

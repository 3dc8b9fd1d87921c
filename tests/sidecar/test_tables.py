"""What of a sidecar's tables stays in memory."""

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.run import Run
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.sidecar.core.shard_executor import SentRows, StepParameters
from idlestate.sidecar.core.shard_tables import ShardTables
from idlestate.sidecar.stores.heap_store import HeapStore
from tests.sidecar.sidecar_world import KEYS, SPEC, UID, World, rows_of


class Watched(HeapStore):
    """A store that has something done at its first look-up, and counts them."""

    looks = 0
    first: Callable[[], object] | None = None

    def get(self, key: str) -> bytes | None:
        self.looks += 1
        first, self.first = self.first, None
        if first is not None:
            first()
        return super().get(key)


def test_a_run_that_two_read_at_once_takes_its_room_once(tmp_path: Path) -> None:
    world = World("heap", tmp_path / "state")
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.close()
    store = Watched(tmp_path / "state")
    shards = [(shard, at) for at, shard in enumerate(world.operator.state.shards)]
    room = sum(shard.current.bytes + 8 * shard.current.rows for shard, _ in shards)
    tables = ShardTables(store, UID, SPEC, room)
    store.first = lambda: tables.table(*shards[0])
    for shard in shards:
        tables.table(*shard)
    before = store.looks
    for shard in shards:
        tables.table(*shard)
    assert store.looks == before, "all of them are still there"
    store.close()


def test_what_was_made_in_vain_is_not_kept(tmp_path: Path) -> None:
    def in_memory() -> int:
        gc.collect()
        return sum(isinstance(each, Run) for each in gc.get_objects())

    world = World("heap", tmp_path / "state")
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    state = world.operator.state
    before = in_memory()
    record = state.record
    parameters = StepParameters(record.policy, 0, record.version + 1, record.committed)
    edit = state.executor.edit("add", SentRows(rows_of([(key, 1) for key in KEYS])))
    stepped = edit.apply(dict(enumerate(state.shards)), parameters)
    assert in_memory() > before
    state.executor.discard(stepped.values())
    assert in_memory() == before
    world.close()


def test_returning_keys_are_found_in_runs_of_before_and_after_a_restart(tmp_path: Path) -> None:
    many, few = [f"a {at}" for at in range(5000)], [f"b {at}" for at in range(10)]
    store = HeapStore(tmp_path / "state")
    tables, record = ShardTables(store, UID, SPEC, 1 << 30), ShardRecord(UID, 0)

    def step(batch_id: int, keys: list[str], t_ms: int) -> ShardRecord:
        policy = Policy(idle_min_ms=10, idle_max_ms=10, remember_ms=FOREVER_MS, min_gap_ms=0)
        columns, times = [pa.array(keys, pa.string())], np.full(len(keys), t_ms)
        steps = Steps.from_records(SPEC, columns, times, {"v": pa.array(times)})
        table = tables.table(record, 0)
        outcome = table.apply(steps, policy, t_ms, batch_id, MergePolicy())
        written = tables.write(record, 0, outcome, t_ms, t_ms)
        store.write(written.values)
        return written.record

    record = step(0, many, 0)
    record = step(1, [], 10)
    tables = ShardTables(store, UID, SPEC, 1 << 30)  # the sidecar was started again
    record = step(2, few, 20)
    record = step(3, [], 30)
    assert len(record.remembered.runs) == 2
    record = step(4, [many[0], few[0]], 40)
    assert record.tally.returning_keys == 2
    store.close()

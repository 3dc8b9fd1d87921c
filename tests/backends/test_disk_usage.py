"""What a shard says that it takes on disk is what its files take."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from idlestate.backends.files.folder import Folder
from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_statistics import ShardStatistics
from tests.backends.test_shard_batch import POLICY, packet, step

USERS = [f"user-{number}" for number in range(500)]
BRIEF = replace(POLICY, policy=replace(POLICY.policy, remember_ms=30))


def statistics_of(record: ShardRecord) -> ShardStatistics:
    return ShardStatistics.of(record, BRIEF.policy)


def parts_of(record: ShardRecord) -> int:
    found = statistics_of(record)
    return found.live_bytes + found.live_remembered_bytes + found.dead_bytes


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("retain_batches", [1, 5, 100])
def test_the_parts_are_together_what_the_files_take(tmp_path: Path, retain_batches: int) -> None:
    """Through merges, sweeps, versions that are kept and versions that go."""
    chance = np.random.default_rng(7)
    files, record, dead = RunFiles(Folder(str(tmp_path)), 3), ShardRecord("clicks", 3), 0
    for at in range(30):
        users = chance.choice(USERS, 40 if at % 7 else 400, replace=False).tolist()
        record = files.remove_unwanted(record, at, retain_batches, orphans=False)
        packets = [packet(users, [at * 5] * len(users))]
        record = step(record, files, packets, at, at * 5 - 1, policy=BRIEF).record
        record = ShardRecord.decode(files.save(record, at))
        assert parts_of(record) == pytest.approx(bytes_below(tmp_path), rel=0.01)
        dead += statistics_of(record).dead_bytes > 0
    assert dead > 20


def test_a_row_that_another_shadows_or_a_sweep_closed_is_dead(tmp_path: Path) -> None:
    files, record = RunFiles(Folder(str(tmp_path)), 3), ShardRecord("clicks", 3)
    record = step(record, files, [packet(USERS, [5] * len(USERS))], 0).record
    assert statistics_of(record).dead_bytes == 0
    taken = statistics_of(record).live_bytes
    record = step(record, files, [packet(USERS[:50], [20] * 50)], 1).record
    assert len(record.current.runs) == 2
    assert statistics_of(record).dead_bytes == pytest.approx(taken / 10, rel=0.1)
    swept = step(record, files, [], 2, 25).record  # what was not touched ends at 25
    assert swept.live_keys == 50
    assert statistics_of(swept).live_bytes == pytest.approx(taken / 10, rel=0.1)

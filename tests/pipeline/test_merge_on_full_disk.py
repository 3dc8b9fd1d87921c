"""A disk that is full in the middle of a merge: the shard stays as it was, and goes on later."""

import errno
from pathlib import Path

import pytest

from idlestate.backends.files.folder import Folder
from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.shards.shard_batch import Advanced
from idlestate.backends.shards.shard_record import ShardRecord
from tests.backends.test_shard_batch import packet, rows, step
from tests.small_disk import disk, leave_room  # noqa: F401 - the fixture

USERS = [f"user {number}" for number in range(30_000)]
ROOM_KB = (0, 16, 200, 900)
"""From no room to room for most of what is merged."""


def grown(folder: Path) -> tuple[RunFiles, Advanced]:
    """A shard of several runs."""
    files = RunFiles(Folder(str(folder)), 3)
    advanced = step(ShardRecord("clicks", 3), files, [packet(USERS, [5] * len(USERS))], 0)
    for batch_id in range(1, 4):
        some = USERS[: 4000 >> batch_id]
        advanced = step(advanced.record, files, [packet(some, [5] * len(some))], batch_id)
    assert len(advanced.record.runs) > 2
    return files, advanced


def merging(files: RunFiles, state: ShardRecord) -> Advanced:
    """A batch that takes in every run."""
    many = USERS[::3]
    return step(state, files, [packet(many, [6] * len(many))], 4)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("3/*")}


def test_what_was_there_stays_and_the_batch_does_the_same_later(
    disk: Path,  # noqa: F811 - the fixture, not the import
    tmp_path: Path,
) -> None:
    elsewhere, state = grown(tmp_path / "elsewhere")
    expected = merging(elsewhere, state.record)
    expected_rows = rows(expected)
    assert len(expected.record.runs) == 1

    files, state = grown(disk)
    before = names(disk)
    for kilobytes in ROOM_KB:
        ballast = leave_room(disk, kilobytes)
        with pytest.raises(OSError, match=r"[Nn]o space") as full:
            merging(files, state.record)
        assert full.value.errno == errno.ENOSPC
        assert names(disk) == before, "half a file was left behind"
    ballast.unlink()
    # A worker that starts anew finds what the one before found.
    for attempt in (files, RunFiles(Folder(str(disk)), 3)):
        merged = merging(attempt, state.record)
        assert rows(merged) == expected_rows
        assert merged.record.runs[0].checksum == expected.record.runs[0].checksum

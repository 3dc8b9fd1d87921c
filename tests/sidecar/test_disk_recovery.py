"""Looking for room takes none from others, leaves nothing, and outlives files that go meanwhile."""

import os
import shutil
from pathlib import Path

import pytest

from idlestate.sidecar.stores.disk_recovery import has_room
from idlestate.sidecar.stores.rocksdb_store import RocksDBStore

KB = 1024


def test_nothing_is_left_of_a_look_whenever_the_process_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[list[Path]] = []
    monkeypatch.setattr(os, "fsync", lambda _: left.append([*tmp_path.iterdir()]))
    assert has_room(tmp_path, KB)
    assert left == [[]]


def test_where_there_is_too_little_no_file_takes_the_rest_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(os, "posix_fallocate", lambda *each: taken.append(each[2]))
    assert not has_room(tmp_path, shutil.disk_usage(tmp_path).total + 1)
    assert not taken
    assert not has_room(tmp_path / "not there", KB)


def test_where_room_cannot_be_asked_for_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS."""
    sizes: list[int] = []
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.setattr(os, "fsync", lambda number: sizes.append(os.fstat(number).st_blocks * 512))
    assert has_room(tmp_path, 3 * KB * KB + 1)
    assert sizes[0] > 3 * KB * KB


def test_a_log_that_rocksdb_removes_meanwhile_ends_no_look(
    tmp_path: Path,
) -> None:
    store = RocksDBStore(tmp_path)
    (tmp_path / "000009.log").symlink_to("gone")
    assert store.is_mended()
    store.close()


def test_a_disk_that_is_gone_has_no_room(tmp_path: Path) -> None:
    store = RocksDBStore(tmp_path / "store")
    (tmp_path / "store").rename(tmp_path / "gone")
    assert not store.is_mended()
    (tmp_path / "gone").rename(tmp_path / "store")
    store.close()

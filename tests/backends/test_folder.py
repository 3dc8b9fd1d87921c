"""Files of a checkpoint: whole or not there, also on a full disk."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from idlestate.backends.files.folder import Folder

LIMIT = 4096


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow past a few kilobytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    with full_disk(), pytest.raises(OSError, match=r"too large|No space"):
        folder.write("below/run.arrow", b"x" * (4 * LIMIT))
    assert list((tmp_path / "below").iterdir()) == []


def test_replacing_on_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.replace("layout.json", b"old")
    with full_disk(), pytest.raises(OSError, match=r"too large|No space"):
        folder.replace("layout.json", b"x" * (4 * LIMIT))
    assert folder.read("layout.json") == b"old"
    assert folder.names("") == ["layout.json"]


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
@pytest.mark.parametrize("name", ["plain", "with space", "100%20done", "a#b?c", "é"])
def test_local_folders_by_path_and_url(tmp_path: Path, prefix: str, name: str) -> None:
    """As Hadoop spells them: nothing is escaped."""
    place = tmp_path / name
    folder = Folder(f"{prefix}{place}")
    assert folder.is_local
    assert folder.names("") == []
    folder.write("a/b", b"data")
    assert (place / "a" / "b").read_bytes() == b"data"
    assert folder.exists("a/b")
    assert folder.exists("a")
    assert not folder.exists("a/c")
    assert folder.names("a") == ["b"]
    assert folder.open("a/b").to_pybytes() == b"data"
    folder.remove("a/b")
    folder.remove("a/b")
    assert folder.names("a") == []

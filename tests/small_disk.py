"""A file system of a few megabytes, and how to fill it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DISK_KB = 8 * 1024


@contextmanager
def mounted(place: Path, kilobytes: int) -> Iterator[Path]:
    """A small file system on a folder made for it; the test is skipped where none can be."""
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def enlarge(place: Path, kilobytes: int) -> None:
    """Make a small file system larger."""
    size = f"remount,size={kilobytes}k"
    subprocess.run(["mount", "-o", size, str(place)], check=True)


def make_read_only(place: Path) -> None:
    """Allow no more writes to a small file system, not even root's."""
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    with mounted(tmp_path / "disk", DISK_KB) as place:
        yield place


def leave_room(disk: Path, kilobytes: int) -> Path:
    """Fill the disk but for so much."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    free = os.statvfs(disk)
    size = free.f_bavail * free.f_frsize - kilobytes * 1024
    with ballast.open("wb") as file:
        file.write(bytes(max(size, 0)))
    return ballast

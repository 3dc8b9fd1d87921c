"""A file system of a few megabytes, and how to fill it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

DISK_KB = 8 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_KB}k", "tmpfs", str(place)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def leave_room(disk: Path, kilobytes: int) -> Path:
    """Fill the disk but for so much."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    free = os.statvfs(disk)
    size = free.f_bavail * free.f_frsize - kilobytes * 1024
    with ballast.open("wb") as file:
        file.write(bytes(max(size, 0)))
    return ballast

"""The lock of a directory whose disk is full."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from idlestate.sidecar.core.directory_lock import DirectoryLock
from tests.small_disk import mounted


def test_a_full_disk_is_named_and_the_directory_stays_free(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", 1024) as disk:
        directory = disk / "state"
        directory.mkdir()
        (directory / "lock").touch()
        filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
        with suppress(OSError):
            while os.write(filler, bytes(4096)):
                pass
        with (
            pytest.raises(OSError, match=r"No space left on device: .*state/lock"),
            DirectoryLock(directory),
        ):
            pass
        os.ftruncate(filler, 0)
        os.close(filler)
        with DirectoryLock(directory):
            assert int((directory / "lock").read_text()) == os.getpid()

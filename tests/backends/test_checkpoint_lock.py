"""One driver per checkpoint, whatever happens to it."""

import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from idlestate.backends.checkpoint import checkpoint_lock
from idlestate.backends.checkpoint.checkpoint_lock import hold, release
from idlestate.backends.files.folder import Folder
from idlestate.errors import RefusedError

OTHER = """
import sys
from idlestate.backends.checkpoint.checkpoint_lock import hold
from idlestate.backends.files.folder import Folder
hold(Folder(sys.argv[1]), "other")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another driver that has the checkpoint."""
    command = [sys.executable, "-c", OTHER, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_another_driver_is_refused_until_the_first_is_killed(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    checkpoint = Folder(str(tmp_path))
    with pytest.raises(RefusedError, match=rf"{tmp_path} is in use already, in the process"):
        hold(checkpoint, "mine")
    other.kill()
    other.wait()
    hold(checkpoint, "mine")
    release(checkpoint, "mine")


def is_free(checkpoint: Path) -> bool:
    done = subprocess.run(
        [sys.executable, "-c", OTHER, str(checkpoint)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def test_a_lock_that_cannot_be_marked_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk, where the same command is run again."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(checkpoint_lock.os, "pwrite", fail)
        with pytest.raises(OSError, match="No space left"):
            hold(Folder(str(tmp_path)), "first")
    hold(Folder(str(tmp_path)), "second")
    release(Folder(str(tmp_path)), "second")


def test_a_later_run_keeps_the_lock_of_an_earlier_one(tmp_path: Path) -> None:
    """Spark tells of an end some time after it."""
    checkpoint = Folder(str(tmp_path))
    hold(checkpoint, "first")
    hold(checkpoint, "second")
    release(checkpoint, "first")
    assert not is_free(tmp_path)
    release(checkpoint, "second")
    assert is_free(tmp_path)

"""Folders among the temporary files: removed once their process is dead, and never before."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from idlestate.backends.files import temporary_folder as own_folder
from idlestate.backends.files.temporary_folder import PREFIX, OwnFolder
from idlestate.sidecar.client.private_sidecar import FOLDER
from tests.sidecar.sidecar_process import wait_for
from tests.stopped_process import stop

OWNER = """
import sys, time
from pathlib import Path
from idlestate.backends.files.temporary_folder import OwnFolder
folder = OwnFolder()
(folder.path / "file").touch()
(folder.path / "folder").mkdir()
(folder.path / "folder" / "link").symlink_to(sys.argv[1])
print(folder.path, flush=True)
sys.stdin.read()
"""
DRIVER = """
import sys
from pathlib import Path
from idlestate.sidecar.client.private_sidecar import private_sidecar
print(private_sidecar(Path(sys.argv[1]), "heap")._sockets.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, also of processes that a test starts."""
    folder = tmp_path_factory.mktemp("t")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def made() -> Iterator[list[OwnFolder]]:
    """Folders that are removed in the end."""
    folders: list[OwnFolder] = []
    yield folders
    for each in folders:
        each.remove()


def start(script: str, argument: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(argument)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()


def test_a_folder_of_a_process_that_was_killed_is_removed_by_the_next(
    temporary: Path, made: list[OwnFolder]
) -> None:
    kept = temporary / "kept"
    (kept / "state").mkdir(parents=True)
    process, path = start(OWNER, kept)
    made.append(OwnFolder())
    assert path.exists(), "its process lives"
    kill(process)
    assert path.exists()
    made.append(OwnFolder())
    assert not path.exists()
    assert (kept / "state").exists(), "what a link leads to is not its own"
    assert made[0].path.exists()
    assert made[1].path.exists()


def test_other_folders_are_left_alone(temporary: Path, made: list[OwnFolder]) -> None:
    others = [temporary / name for name in ("idlestate-cache-0", f"{PREFIX}file", f"{PREFIX}link")]
    others[0].mkdir()
    others[1].touch()
    others[2].symlink_to(others[0])
    made.append(OwnFolder())
    assert all(each.exists() for each in others)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of others")
def test_folders_of_other_users_are_left_alone(temporary: Path, made: list[OwnFolder]) -> None:
    other = temporary / f"{PREFIX}other"
    other.mkdir(mode=0o700)
    os.chown(other, 12_345, 12_345)
    made.append(OwnFolder())
    assert other.exists()


def test_a_folder_that_somebody_removed_is_made_and_kept_again(
    temporary: Path, made: list[OwnFolder]
) -> None:
    made.append(OwnFolder())
    made[0].path.rmdir()
    made[0].ensure()
    made.append(OwnFolder())
    assert made[0].path.exists()


def test_a_new_folder_that_is_taken_for_a_dead_ones_is_made_again(
    temporary: Path, made: list[OwnFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its making and its lock another process may come by."""
    ensure = OwnFolder.ensure

    def late(folder: OwnFolder) -> None:
        monkeypatch.setattr(OwnFolder, "ensure", ensure)
        own_folder._remove_left_behind(temporary)
        assert not folder.path.exists()
        folder.ensure()

    monkeypatch.setattr(OwnFolder, "ensure", late)
    made.append(OwnFolder())
    made.append(OwnFolder())
    assert all(each.path.exists() for each in made)


def test_sockets_stay_until_the_sidecar_of_a_killed_driver_has_ended(
    temporary: Path, made: list[OwnFolder]
) -> None:
    checkpoint = temporary / "checkpoint"
    checkpoint.mkdir()
    process, path = start(DRIVER, checkpoint)
    sidecar = int((checkpoint / FOLDER / "state" / "lock").read_text())
    stop(sidecar)
    try:
        kill(process)
        made.append(OwnFolder())
        assert path.exists()
    finally:
        os.kill(sidecar, signal.SIGCONT)

    def is_removed() -> bool:
        OwnFolder().remove()
        return not path.exists()

    wait_for(is_removed)

"""A sidecar of the driver's own, while it dies and is started again."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from subprocess import PIPE

import pytest

from idlestate.errors import (
    DamagedStateError,
    IdlestateError,
    RefusedError,
    StoreError,
    UnavailableError,
)
from idlestate.sidecar.client import private_sidecar as module
from idlestate.sidecar.client.private_sidecar import (
    FOLDER,
    PrivateSidecar,
    private_sidecar,
    sidecar_to_ask,
    stop_private_sidecar,
    stop_private_sidecars,
)
from idlestate.sidecar.core.directory_lock import DirectoryLock
from idlestate.sidecar.protocol.connection import Connection
from idlestate.sidecar.protocol.exit_codes import DAMAGED, DISK_FAILED, FAILED, REFUSED
from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_process import wait_for


@pytest.fixture
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("c")
    stop_private_sidecars()


def kill(checkpoint: Path) -> None:
    os.kill(int((checkpoint / FOLDER / "state" / "lock").read_text()), signal.SIGKILL)


def write_script(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o700)


def is_open(place: str) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        return caller.connect_ex(place.removeprefix("unix:")) == 0


def test_one_that_is_stopped_while_it_is_started_again_stays_stopped(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = PrivateSidecar._start
    begun = threading.Event()

    def late(sidecar: PrivateSidecar) -> None:
        sidecar.stop()
        begun.set()
        start(sidecar)

    found = private_sidecar(checkpoint, "heap")
    (watch,) = (each for each in threading.enumerate() if each.name == "idlestate-sidecar")
    monkeypatch.setattr(PrivateSidecar, "_start", late)
    kill(checkpoint)
    assert begun.wait(PATIENCE_S)
    watch.join(PATIENCE_S)
    assert not watch.is_alive()
    assert not found._sockets.path.exists()
    with DirectoryLock(checkpoint / FOLDER / "state", PATIENCE_S):
        pass  # nobody holds it


def test_one_that_is_being_started_again_is_the_one_that_is_asked_for(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks of a query wait for it at its old address."""
    start = PrivateSidecar._start
    begun, go_on = threading.Event(), threading.Event()

    def slow(sidecar: PrivateSidecar) -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        start(sidecar)

    first = private_sidecar(checkpoint, "heap")
    monkeypatch.setattr(PrivateSidecar, "_start", slow)
    kill(checkpoint)
    assert begun.wait(PATIENCE_S)
    monkeypatch.setattr(PrivateSidecar, "_start", start)
    again = private_sidecar(checkpoint, "heap")
    go_on.set()
    assert again is first


def test_a_checkpoint_has_one_however_its_path_is_written(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark tells the path of a checkpoint without the `..` that a file may have in it."""

    class Played:
        def __init__(self, _folder: Path, backend: str) -> None:
            self.backend, self.is_running = backend, True

        def stop(self) -> None:
            self.is_running = False

    monkeypatch.setattr(module, "PrivateSidecar", Played)
    (checkpoint / "alias").symlink_to(checkpoint)
    first = private_sidecar(checkpoint, "heap")
    for path in (checkpoint / ".." / checkpoint.name, checkpoint / "alias"):
        assert private_sidecar(path, "heap") is first
    stop_private_sidecar(checkpoint / ".." / checkpoint.name)
    assert not first.is_running


def test_other_processes_ask_the_one_of_the_driver_while_that_lives(checkpoint: Path) -> None:
    """It has the folder to itself, so none could be started beside it."""
    script = (
        "import sys; from pathlib import Path; "
        "from idlestate.sidecar.client.private_sidecar import private_sidecar; "
        "print(private_sidecar(Path(sys.argv[1]), 'heap').address.place, flush=True); "
        "sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(checkpoint)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as driver:
        assert driver.stdout is not None
        theirs = driver.stdout.readline().strip()
        assert sidecar_to_ask(checkpoint, "heap").place == theirs
        driver.kill()  # it leaves the note of its address
    assert (checkpoint / FOLDER / "address").read_text() == theirs
    wait_for(lambda: not is_open(theirs))  # its sidecar notices, and ends
    ours = sidecar_to_ask(checkpoint, "heap")
    assert ours.place != theirs
    assert ours == private_sidecar(checkpoint, "heap").address
    stop_private_sidecars()
    assert not (checkpoint / FOLDER / "address").exists()


def test_one_that_is_killed_while_it_is_started_again_is_started_once_more(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = PrivateSidecar._answers
    killed, started = threading.Event(), threading.Event()

    def killing_the_first(sidecar: PrivateSidecar) -> bool:
        if not killed.is_set():
            killed.set()
            sidecar._process.kill()
        if answered := answers(sidecar):
            started.set()
        return answered

    sidecar = private_sidecar(checkpoint, "heap")
    monkeypatch.setattr(PrivateSidecar, "_answers", killing_the_first)
    kill(checkpoint)
    assert started.wait(PATIENCE_S)
    assert killed.is_set()
    with closing(Connection(sidecar.address, patience_s=0)) as connection:
        connection.call("hello")


@pytest.mark.long
def test_one_that_is_told_to_stop_while_it_is_started_again_is_started_once_more(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sidecar = private_sidecar(checkpoint, "heap")
    told, script = checkpoint / "told", checkpoint / "python"
    python = f'[ -e {told} ] || {{ touch {told}; exit 0; }}; exec {sys.executable} "$@"'
    write_script(script, python)
    monkeypatch.setattr(sys, "executable", str(script))
    kill(checkpoint)
    with closing(Connection(sidecar.address, patience_s=PATIENCE_S)) as connection:
        connection.call("hello")
    assert told.exists()


def test_one_that_cannot_be_started_again_is_tried_until_it_can(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = PrivateSidecar._start
    failed = threading.Event()

    def noting(sidecar: PrivateSidecar) -> None:
        try:
            start(sidecar)
        except StoreError:
            failed.set()
            raise

    sidecar = private_sidecar(checkpoint, "heap")
    monkeypatch.setattr(PrivateSidecar, "_start", noting)
    state = checkpoint / FOLDER / "state"
    pid = int((state / "lock").read_text())
    away = state.rename(state.with_name("away"))
    state.touch()
    os.kill(pid, signal.SIGKILL)
    assert failed.wait(PATIENCE_S)
    with pytest.raises(StoreError, match=r"does not start: .*File exists"):
        PrivateSidecar(checkpoint / FOLDER, "heap")
    state.unlink()
    away.rename(state)
    with closing(Connection(sidecar.address, patience_s=PATIENCE_S)) as connection:
        connection.call("hello")


@pytest.mark.parametrize("length", [70, 71, 200])
def test_one_starts_however_long_the_path_of_temporary_files_is(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    folder = checkpoint / ("x" * (length - len(str(checkpoint)) - 1))
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with closing(Connection(private_sidecar(checkpoint, "heap").address)) as connection:
        connection.call("hello")


@pytest.mark.parametrize("gone", [pytest.param("its file", marks=pytest.mark.long), "its folder"])
def test_one_whose_temporary_files_were_removed_for_their_age_is_started_again(
    checkpoint: Path, gone: str
) -> None:
    sidecar = private_sidecar(checkpoint, "heap")
    shutil.rmtree(sidecar._sockets.path) if gone == "its folder" else sidecar._file.unlink()
    kill(checkpoint)
    with closing(Connection(sidecar.address, patience_s=PATIENCE_S)) as connection:
        connection.call("hello")
    assert stat.S_IMODE(sidecar._sockets.path.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of others")
@pytest.mark.parametrize("is_link", [False, True])
def test_a_folder_that_another_user_made_in_its_place_is_not_used(
    checkpoint: Path, is_link: bool, caplog: pytest.LogCaptureFixture
) -> None:
    sidecar = private_sidecar(checkpoint, "heap")
    shutil.rmtree(sidecar._sockets.path)
    theirs = checkpoint / "theirs" if is_link else sidecar._sockets.path
    theirs.mkdir(mode=0o777)
    if is_link:
        sidecar._sockets.path.symlink_to(theirs)
    os.chown(sidecar._sockets.path, 12_345, 12_345, follow_symlinks=False)
    kill(checkpoint)
    wait_for(lambda: "was replaced by a folder of another user" in caplog.text)
    assert list(theirs.iterdir()) == []


@pytest.mark.parametrize(
    ("program", "why"),
    [("kill -9 $$", "signal 9 ended it"), ("cat", "it did not answer for 0.2 s")],
)
def test_one_that_says_nothing_is_told_by_how_it_ended(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    script = checkpoint / "python"
    write_script(script, program)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setattr(module, "_START_S", 0.2)
    with pytest.raises(UnavailableError, match=f"does not start: {why}"):
        private_sidecar(checkpoint, "heap")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (FAILED, UnavailableError),
        (REFUSED, RefusedError),
        (DAMAGED, DamagedStateError),
        (DISK_FAILED, StoreError),
    ],
)
def test_its_exit_code_is_the_kind_of_error(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[IdlestateError]
) -> None:
    script = checkpoint / "python"
    write_script(script, f"echo the reason >&2; exit {code}")
    monkeypatch.setattr(sys, "executable", str(script))
    with pytest.raises(kind, match=r"does not start: the reason$"):
        private_sidecar(checkpoint, "heap")


def test_one_whose_state_is_damaged_says_so(checkpoint: Path) -> None:
    private_sidecar(checkpoint, "heap")
    stop_private_sidecar(checkpoint)
    (log,) = (checkpoint / FOLDER / "state" / "heap").glob("log-*")
    log.write_bytes(b"no log of a store")
    with pytest.raises(DamagedStateError, match="does not start: "):
        private_sidecar(checkpoint, "heap")


def test_one_whose_start_is_interrupted_ends(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may keep what was raised, as notebooks do, and with it the process's input."""
    started: list[PrivateSidecar] = []

    def interrupted(sidecar: PrivateSidecar) -> bool:
        started.append(sidecar)
        raise KeyboardInterrupt

    monkeypatch.setattr(PrivateSidecar, "_answers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        private_sidecar(checkpoint, "heap")
    assert started[0]._process.poll() is not None


def test_one_that_does_not_start_leaves_no_folder_behind(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(checkpoint))
    (checkpoint / FOLDER).touch()
    with pytest.raises(StoreError, match="exists"):
        private_sidecar(checkpoint, "heap")
    assert [each.name for each in checkpoint.iterdir()] == [FOLDER]

"""A sidecar of the driver's own, while it dies and is started again."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from idlestate.backends.sidecar.connection import Connection
from idlestate.pipeline.private_sidecar import (
    FOLDER,
    PrivateSidecar,
    private_sidecar,
    stop_private_sidecars,
)
from idlestate.service.sidecar.directory_lock import DirectoryLock

PATIENCE_S = 30


@pytest.fixture
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("c")
    stop_private_sidecars()


def kill(checkpoint: Path) -> None:
    os.kill(int((checkpoint / FOLDER / "state" / "lock").read_text()), signal.SIGKILL)


def test_one_that_is_stopped_while_it_is_started_again_stays_stopped(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = PrivateSidecar._start
    begun = threading.Event()

    def late(sidecar: PrivateSidecar) -> None:
        sidecar.stop()
        begun.set()
        start(sidecar)

    private_sidecar(checkpoint, "heap")
    (watch,) = (each for each in threading.enumerate() if each.name == "idlestate-sidecar")
    monkeypatch.setattr(PrivateSidecar, "_start", late)
    kill(checkpoint)
    assert begun.wait(PATIENCE_S)
    watch.join(PATIENCE_S)
    assert not watch.is_alive()
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

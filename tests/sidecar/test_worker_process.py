"""A worker's process that dies, or loses the one that started it, at whatever moment."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from idlestate.config.sidecar_settings import Sidecar as Settings
from idlestate.sidecar.core.directory_lock import DirectoryLock
from idlestate.sidecar.core.state_folder import StateFolder
from idlestate.sidecar.workers.worker_settings import WorkerSettings
from idlestate.sidecar.workers.worker_supervisor import Worker, WorkerEndedError, Workers
from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_process import COMMAND, Sidecar, wait_for

Popen = subprocess.Popen[bytes]


def spawned(*words: str) -> Popen:
    return subprocess.Popen(
        [sys.executable, *(words or ("-m", "idlestate.sidecar.workers.worker_process"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def tell_settings(worker: Popen, folder: Path) -> None:
    inner, outer = str(folder / "inner"), f"unix:{folder / 'outer'}"
    settings = WorkerSettings(str(folder / "range"), "heap", False, 1, inner, outer, None, None)
    assert worker.stdin is not None
    worker.stdin.write(settings.to_line())
    worker.stdin.flush()


def test_one_that_waits_for_its_folder_ends_with_the_process_that_started_it(folder: Path) -> None:
    with DirectoryLock(folder / "range"):
        worker = spawned()
        tell_settings(worker, folder)
        assert worker.communicate(timeout=PATIENCE_S) == (b"", b"")
    assert worker.returncode == 1


@pytest.mark.parametrize("tell", [lambda *_: None, tell_settings], ids=["untold", "told"])
def test_one_that_nobody_listens_to_ends_without_a_word(
    folder: Path, tell: Callable[[Popen, Path], None]
) -> None:
    worker = spawned()
    tell(worker, folder)
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdout.close()
    worker.stdin.close()
    assert worker.wait(PATIENCE_S) == 1
    assert worker.stderr is not None
    assert worker.stderr.read() == b""
    worker.stderr.close()


LOADS = """
import sys
import pyarrow as pa
from idlestate.sidecar.workers.worker_process import main

main()
pa.array([1])
print({"pandas", "pydantic"} & set(sys.modules))
"""
"""A worker that gets no settings, and an array."""


def test_a_worker_loads_neither_pandas_nor_the_models_of_files() -> None:
    """Together they took a third of the processor time of its start."""
    words = [sys.executable, "-c", LOADS]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert done.stdout == b"set()\n", done


HANGS = """
import sys
import threading
from idlestate.sidecar.stores.heap_store import HeapStore
from idlestate.sidecar.workers.worker_process import main

def is_mended(_):
    print("looks", flush=True)
    threading.Event().wait()

HeapStore.is_broken = property(lambda _: True)
HeapStore.is_mended = is_mended
sys.exit(main())
"""


def test_one_whose_disk_hangs_while_it_is_looked_at_ends_with_the_process_that_started_it(
    folder: Path,
) -> None:
    worker = spawned("-c", HANGS)
    tell_settings(worker, folder)
    assert worker.stdout is not None
    assert b"place" in worker.stdout.readline()
    assert worker.stdout.readline() == b"looks\n"
    try:
        worker.communicate(timeout=PATIENCE_S)
    finally:
        worker.kill()
    assert worker.returncode == 0


def test_one_that_is_started_again_and_again_has_paths_that_are_as_short(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket's has an end, which may be near."""
    listens: list[str] = []

    def popen(*_: object, **__: object) -> Any:
        return SimpleNamespace(stdin=io.BytesIO())

    monkeypatch.setattr(subprocess, "Popen", popen)
    worker: Any = workers_of(folder).every[0]
    for _ in range(12):
        worker.spawn()
        listens.append(worker._inner)
    assert len(set(map(len, listens))) == 1
    assert all(before != after for before, after in pairwise(listens))


def test_ctrl_c_while_workers_start_is_heard_by_the_sidecar_alone(made: Any) -> None:
    sidecar: Sidecar = made(workers=2)
    sidecar.write_file()
    sidecar.process = subprocess.Popen(
        [*COMMAND, "serve", str(sidecar.file)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(sidecar.workers)
    os.killpg(sidecar.process.pid, signal.SIGINT)
    _, said = sidecar.process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in said
    assert sidecar.process.returncode == 0, said


def workers_of(folder: Path) -> Workers:
    settings = Settings.model_validate({"directory": str(folder), "workers": 2, "backend": "heap"})
    state = StateFolder(folder, "heap", sync=False)
    state.store.close()
    return Workers(settings, folder, state, f"unix:{folder / 'data.sock'}", print)


@pytest.mark.parametrize("kills", [1, 10])
def test_one_that_is_killed_while_its_sidecar_starts_is_started_once_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    spawn, spawned = Worker.spawn, []

    def killed(worker: Worker) -> None:
        spawn(worker)
        spawned.append(worker.number)
        if worker.number == 1 and spawned.count(1) <= kills:
            assert worker._process is not None
            worker._process.kill()

    monkeypatch.setattr(Worker, "spawn", killed)
    workers = workers_of(folder)
    try:
        if kills == 1:
            workers.start()
            assert workers.up == 2
        else:
            with pytest.raises(WorkerEndedError, match="worker 1 ended with -9 while it started"):
                workers.start()
    finally:
        workers.stop()

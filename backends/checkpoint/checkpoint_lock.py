"""One driver per checkpoint: a lock on a local checkpoint's folder while a query runs on it or a
command changes it.

Within a driver, Spark itself prevents a second query. The system releases the lock when the driver
dies. Checkpoints in other stores have no lock; there, Spark stops one of two drivers when both plan
the same batch.
"""

import fcntl
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from idlestate.backends.files.folder import Folder
from idlestate.errors import RefusedError

LOCK = ".idlestate.lock"
"""The file in the checkpoint that is locked; it stays, as another driver may have opened it."""


@dataclass(frozen=True, slots=True)
class _Held:
    file: int
    run_id: str


_held: dict[str, _Held] = {}
_turn = threading.Lock()


def hold(checkpoint: Folder, run_id: str) -> None:
    """Lock a checkpoint for a run of its query, which takes over from earlier runs in this process.

    The checkpoint is created if needed.

    Raises:
        RefusedError: another process holds it.
    """
    if not checkpoint.is_local:
        return
    path = checkpoint.path(LOCK)
    with _turn:
        held = _held.get(path)
        file = _locked(checkpoint, path) if held is None else held.file
        if file is not None:
            _held[path] = _Held(file, run_id)


@contextmanager
def held(checkpoint: Folder) -> Iterator[None]:
    """Hold the lock of a checkpoint, unless a query that this process starts takes it over.

    Raises:
        RefusedError: another process holds it.
    """
    holder = uuid.uuid4().hex
    hold(checkpoint, holder)
    try:
        yield
    finally:
        release(checkpoint, holder)


def release(checkpoint: Folder, run_id: str) -> None:
    """Release the lock, unless a later run holds it."""
    with _turn:
        held = _held.get(checkpoint.path(LOCK))
        if held is not None and held.run_id == run_id:
            os.close(_held.pop(checkpoint.path(LOCK)).file)


def _locked(checkpoint: Folder, path: str) -> int | None:
    """The locked file; None if the file system has no locks."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(file, 32).decode(errors="replace").strip() or "unknown"
        os.close(file)
        raise RefusedError(
            f"checkpoint {checkpoint} is in use already, in the process with pid {holder}: a query "
            "runs on it, or a command changes it; stop that one first, or use another checkpoint"
        ) from None
    except OSError:
        os.close(file)
        return None
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    except OSError:  # for example a full disk; release the lock for the next try
        os.close(file)
        raise
    return file

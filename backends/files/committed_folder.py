"""A folder with runs and a record that names them, changed by commits.

    lock               held while the folder is open
    state.json         the record, in one line, then its XXH3 in hexadecimal: what was committed
    runs/0/*.arrow     the runs (`backends/files/run_files.py`)

A commit first makes new files durable, then replaces the record, and only then removes files that
the record no longer names. So a crash leaves the last commit, and possibly files that nothing
names, which the next program removes.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import xxhash

from idlestate.backends.files.folder import Folder
from idlestate.backends.files.run_files import RunFiles
from idlestate.errors import DamagedStateError, RefusedError, StoreError

RECORD: Final = "state.json"
_ADVICE: Final = "restore the folder from a backup, or the state from a snapshot"
_DRAFT, _LOCK, _RUNS = "state.json.draft", "lock", "runs"
_OURS: Final = {RECORD, _DRAFT, _LOCK, _RUNS}


class CommittedFolder:
    """A folder that is locked until it is closed.

    Attributes:
        path: its path.
        files: its runs.
    """

    def __init__(self, path: Path) -> None:
        """Use this folder; create it if it does not exist.

        Raises:
            RefusedError: the folder contains something else, or is open already.
            StoreError: a disk operation failed.
        """
        self.path = path
        self._runs = path / _RUNS / "0"
        with self.plainly():
            if path.is_dir() and (others := _names(path) - _OURS):
                raise RefusedError(
                    f"{path} holds {min(others)}, which is not of this kind of backend: pass "
                    "another folder, or open it as the kind that wrote it"
                )
            self._runs.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                self.close()
                raise RefusedError(
                    f"{path} is open already, here or in another process: close it there first, or "
                    "use another folder"
                ) from error
        self.files = RunFiles(Folder(str(path / _RUNS)), 0, advice=_ADVICE)
        self._durable: set[str] = set()

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """Raise `StoreError` for failed disk operations."""
        try:
            yield
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(
                f"{self.path}: a disk operation failed, nothing was committed: {error}; free disk "
                "space or repair the disk, then try again"
            ) from error

    def read(self) -> dict[str, Any] | None:
        """The record; None in a new folder.

        Raises:
            DamagedStateError: the record is damaged.
        """
        place = self.path / RECORD
        with self.plainly():
            if not place.exists():
                return None
            text, _, checksum = place.read_bytes().partition(b"\n")
        if _checksum(text) != checksum.strip():
            raise DamagedStateError(f"{place} is damaged (a wrong checksum); {_ADVICE}")
        record: dict[str, Any] = json.loads(text)
        return record

    def commit(self, record: dict[str, Any], named: set[str]) -> None:
        """Replace the record, durably, with the runs that it names.

        Raises:
            StoreError: a disk operation failed; the previous record stays in effect.
        """
        text = json.dumps(record).encode()
        with self.plainly():
            for name in sorted(named - self._durable):
                _sync(self._runs / name)
            _sync(self._runs)
            draft = self.path / _DRAFT
            draft.write_bytes(text + b"\n" + _checksum(text) + b"\n")
            _sync(draft)
            draft.replace(self.path / RECORD)
            _sync(self.path)
        self._durable = named

    def keep_only(self, named: set[str]) -> None:
        """Remove all other runs."""
        self._durable = named
        with self.plainly():
            for name in _names(self._runs) - named:
                (self._runs / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Let another program open it."""
        os.close(self._lock)


def is_committed_folder(path: Path) -> bool:
    """Whether it was ever opened as such a folder, even if nothing was committed."""
    return (path / RECORD).exists() or ((path / _LOCK).exists() and (path / _RUNS).exists())


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _checksum(text: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(text).encode()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

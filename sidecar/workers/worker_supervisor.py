"""The workers of a sidecar: starts, monitors, restarts and stops them."""

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from idlestate.config.sidecar_settings import Sidecar
from idlestate.errors import RefusedError, UnavailableError
from idlestate.sidecar.core.state_folder import StateFolder
from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.errors import AwayError, BusyError, SidecarError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.protocol.retries import pauses_s
from idlestate.sidecar.workers.worker_calls import WRITING
from idlestate.sidecar.workers.worker_settings import WorkerSettings

_STOP_S = 20.0
_ANSWER_S = 120.0
_FIRST_PAUSE_S = 0.1
_KEYS_PER_CALL = 10_000
_TRIES = 3
_log = logging.getLogger("idlestate")


class WorkerError(SidecarError, RefusedError):
    """A worker does not start: do what its text says, which comes from the worker."""


class WorkerEndedError(SidecarError, UnavailableError):
    """A worker ended during its start without a message: start the sidecar again."""


class Worker:
    """One worker, and the link to it.

    Args:
        number: its range.
        settings: its settings, without the name of the inner socket.
        tell: writes a line to the sidecar's log.

    Attributes:
        place: its address for clients.
        restarts: how often it was restarted.
        bytes_on_disk: the size of its store, when it was last asked.
        properties: the properties of its store, when it was last asked.
    """

    def __init__(self, number: int, settings: WorkerSettings, tell: Callable[[str], None]) -> None:
        self.number = number
        self.restarts = 0
        self.place = settings.listen
        self._settings = settings
        self._tell = tell
        self._starts = 0
        self._inner = settings.inner
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._link: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._is_broken = False
        self._later: list[str] = []
        self._told = ""
        """Why the worker cannot remove values: this may last for days, and is logged once."""
        self._lock = threading.Lock()
        self.bytes_on_disk = 0
        self.properties: Mapping[str, int] = {}

    @property
    def is_up(self) -> bool:
        """Whether it answers, and accepted writes when it was last asked."""
        return self._link is not None and not self._is_broken

    def spawn(self) -> None:
        """Start the process, without waiting for it."""
        # The previous socket has no listener; the path may be close to the longest possible one.
        self._starts = (self._starts + 1) % 10
        self._inner = f"{self._settings.inner}.{self._starts}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "idlestate.sidecar.workers.worker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for the sidecar, even while this starts
        )
        assert self._process.stdin is not None
        settings = replace(self._settings, inner=self._inner, listen=self.place)
        with suppress(BrokenPipeError):  # it has ended, and `greet` reports that
            self._process.stdin.write(settings.to_line())
            self._process.stdin.flush()

    def greet(self) -> None:
        """Wait until it answers.

        Raises:
            WorkerError, WorkerEndedError: it does not start.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        facts = json.loads(line) if line else {}
        if "place" not in facts:
            self._end()
            if "error" in facts:
                raise WorkerError(f"worker {self.number}: {facts['error']}")
            raise WorkerEndedError(
                f"worker {self.number} ended with {self._process.returncode} while it started"
            )
        self.place = facts["place"]
        address = Address(f"unix:{self._inner}")
        connection = Connection(address, patience_s=0, timeout_s=_ANSWER_S)
        self._link = (self._process, connection)
        self.tidy()

    def watch(self) -> None:
        """Restart it from now on whenever it dies."""
        threading.Thread(
            target=self._watch, name=f"idlestate-worker-{self.number}", daemon=True
        ).start()

    def call(self, name: str, header: Mapping[str, Any], *parts: bytes) -> Message:
        """See `Link`."""
        link = self._link
        if link is None:
            raise self._away()
        process, connection = link
        gone = self._put_off(_KEYS_PER_CALL) if name in WRITING else []
        if gone:
            header = {**header, "gone": gone}
        try:
            return connection.call(name, header, *parts)
        except SidecarError as error:
            self.remove(gone)  # the worker may or may not have executed the call
            if not isinstance(error, AwayError):
                raise
            # It has died, or hangs: then it is killed, which loses nothing.
            process.kill()
            raise self._away() from error

    def remove(self, keys: Iterable[str]) -> None:
        """See `Link`; by the next call that writes, or the next `tidy`."""
        with self._lock:
            self._later += keys

    def tidy(self) -> None:
        """Do postponed removals and ask for the size of the store; removals that fail are postponed
        again.
        """
        while keys := self._put_off(_KEYS_PER_CALL):
            try:
                self.call("remove", {"keys": keys})
                self._told = ""
            except SidecarError as error:
                self.remove(keys)
                if not isinstance(error, BusyError) and str(error) != self._told:
                    self._told = str(error)
                    _log.error("worker %d cannot free disk space: %s", self.number, error)
                break
        with suppress(SidecarError):
            facts = self.call("size", {}).header
            self.bytes_on_disk, self._is_broken = facts["bytes"], facts["is_broken"]
            self.properties = facts["properties"]

    def stop(self) -> None:
        """Stop it, and wait for its end."""
        self._stopping.set()
        self._end()

    def kill(self) -> None:
        """Kill it, which loses nothing that was acknowledged."""
        self._stopping.set()
        if self._process is not None:
            self._process.kill()

    def _put_off(self, most: int) -> list[str]:
        """Keys to remove, taken from the postponed ones."""
        with self._lock:
            keys, self._later = self._later[:most], self._later[most:]
        return keys

    def _watch(self) -> None:
        pauses = pauses_s(_FIRST_PAUSE_S)
        while True:
            assert self._process is not None
            code = self._process.wait()
            self._link = None
            if self._stopping.is_set():
                return
            self._tell(f"worker {self.number} ended with {code} and is restarted")
            self.restarts += 1
            try:
                self._end()
                self.spawn()
                self.greet()
                pauses = pauses_s(_FIRST_PAUSE_S)
                if self._stopping.is_set():
                    self._end()
            except (SidecarError, OSError, ValueError) as error:
                _log.error("%s; it is tried again", error)
                self._stopping.wait(next(pauses))

    def _end(self) -> None:
        """Close the connections to the process, and wait for its end."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        Path(self._inner).unlink(missing_ok=True)

    def _away(self) -> BusyError:
        return BusyError(f"worker {self.number} is restarting; retry the call")


class Workers:
    """All workers of a sidecar.

    Args:
        settings: the sidecar's settings.
        directory: the sidecar's directory.
        folder: the sidecar's files.
        listen: the sidecar's own data plane.
        tell: writes a line to the sidecar's log.
    """

    def __init__(
        self,
        settings: Sidecar,
        directory: Path,
        folder: StateFolder,
        listen: str,
        tell: Callable[[str], None],
    ) -> None:
        self.every = [
            Worker(
                at,
                WorkerSettings(
                    folder=str(folder.folder_of(at, settings.workers)),
                    backend=settings.backend,
                    sync=settings.sync,
                    cache_bytes=(settings.cache_mb << 20) // settings.workers,
                    inner=str(directory / f"worker-{at}.sock"),
                    listen=_beside(listen, at),
                    token_file=settings.token_file,
                    tls=settings.tls.model_dump() if settings.tls else None,
                ),
                tell,
            )
            for at in range(settings.workers)
        ]

    @property
    def places(self) -> Sequence[str]:
        """The address suffix of each worker, relative to the sidecar's own address."""
        return [_suffix(each.place, each.number) for each in self.every]

    @property
    def up(self) -> int:
        """The number of workers that answer and accept writes."""
        return sum(each.is_up for each in self.every)

    @property
    def restarts(self) -> int:
        """The total number of restarts."""
        return sum(each.restarts for each in self.every)

    def start(self) -> None:
        """Start all, and wait until they answer.

        Raises:
            WorkerError, WorkerEndedError: one does not start.
        """
        for each in self.every:
            each.spawn()
        for each in self.every:
            _greet(each)
        for each in self.every:
            each.watch()

    def tidy(self) -> None:
        """Do postponed removals."""
        for each in self.every:
            each.tidy()

    def bytes_on_disk(self) -> int:
        """The bytes of their stores."""
        return sum(each.bytes_on_disk for each in self.every)

    def stop(self) -> None:
        """Stop all."""
        threads = [threading.Thread(target=each.stop) for each in self.every]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def kill(self) -> None:
        """Kill all."""
        for each in self.every:
            each.kill()


def _greet(worker: Worker) -> None:
    """Wait until it answers; a worker that was killed during its start is started once more."""
    for left in reversed(range(_TRIES)):
        try:
            worker.greet()
            return
        except WorkerEndedError:
            if not left:
                raise
            worker.spawn()


def _beside(listen: str, at: int) -> str:
    """A worker's address, derived from its sidecar's: a socket with a suffix, or a following
    port.
    """
    if listen.startswith("unix:"):
        return f"{listen}.{at}"
    host, _, port = listen.rpartition(":")
    return f"{host}:{int(port) + 1 + at if int(port) else 0}"


def _suffix(place: str, at: int) -> str:
    return f".{at}" if place.startswith("unix:") else place.rpartition(":")[2]

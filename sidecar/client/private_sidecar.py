"""A sidecar that the driver starts for itself, in the checkpoint's folder.

It lives as long as the driver: it reads from a pipe whose other end the driver holds, and stops
when that end is closed, however the driver ends. If it dies earlier, it is restarted, and waiting
tasks continue. Its sockets are in a folder that only its user can enter, because a path in the
checkpoint may be too long for a socket.
"""

import atexit
import json
import logging
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

from idlestate.backends.files.temporary_folder import OwnFolder
from idlestate.errors import IdlestateError, StoreError
from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.errors import SidecarError
from idlestate.sidecar.protocol.exit_codes import IN_USE, kind_of
from idlestate.sidecar.protocol.retries import pauses_s
from idlestate.timers.clock import SystemClock

FOLDER = "idlestate-sidecar"
_ADDRESS = "address"
"""The file in it that says where the sidecar answers, for other processes."""
_log = logging.getLogger("idlestate")
_START_S = 60.0
_HELLO_S = 5.0
_STOP_S = 30.0
_POLL_S = 0.05
_FIRST_PAUSE_S = 0.3


class PrivateSidecar:
    """A running sidecar.

    Args:
        folder: the folder of its state.
        backend: `rocksdb` or `heap`.

    Raises:
        StoreError: the disk failed.
        IdlestateError: it does not start; the kind and the text come from the sidecar.
    """

    def __init__(self, folder: Path, backend: str) -> None:
        self.backend = backend
        self._note = folder / _ADDRESS
        self._log = folder / "sidecar.log"
        self._stopping = threading.Event()
        self._cannot_start = False
        self._lock = threading.Lock()
        self._sockets = OwnFolder()
        self._settings = {
            "directory": str(folder / "state"),
            "backend": backend,
            "data": f"unix:{self._sockets.path / 'data.sock'}",
            "control": f"unix:{self._sockets.path / 'control.sock'}",
        }
        self.address = Address(self._settings["data"])
        self._file = self._sockets.path / "sidecar.json"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._start()
            self._note.write_text(self.address.place)
        except BaseException as error:
            self._sockets.remove()
            if isinstance(error, OSError) and not isinstance(error, StoreError):
                raise StoreError(f"the sidecar in {folder} does not start: {error}") from error
            raise
        threading.Thread(target=self._watch, name="idlestate-sidecar", daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Whether its process is alive, or is being restarted and has not failed to start so
        far.
        """
        return not self._stopping.is_set() and not self._cannot_start

    def stop(self) -> None:
        """Stop it, and wait for its end; a second call does nothing."""
        with self._lock:  # from now on, no process is started
            self._stopping.set()
        self._note.unlink(missing_ok=True)  # before another driver may start one there
        self._end()
        self._sockets.remove()

    def _end(self) -> None:
        """Stop the process, and wait for its end."""
        self._close_input()
        try:
            self._process.wait(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _close_input(self) -> None:
        """Close the process's input, which ends it."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _watch(self) -> None:
        """Restart it whenever it dies on its own."""
        while True:
            self._process.wait()
            self._close_input()
            if self._stopping.is_set():
                return
            _log.warning("the sidecar in %s died and is restarted", self._log.parent)
            self._start_again()

    def _start_again(self) -> None:
        """Start it, with retries: the cause of a failure may be temporary, such as a full disk."""
        told, pauses = "", pauses_s(_FIRST_PAUSE_S)
        while not self._stopping.is_set():
            try:
                self._start()
            except (IdlestateError, OSError) as error:
                # Tasks that wait for it report only that it does not answer; this logs the reason.
                if str(error) != told:
                    _log.error("%s; it is tried again", error)
                told, self._cannot_start = str(error), True
                self._stopping.wait(next(pauses))
            else:
                self._cannot_start = False
                return

    def _write_file(self) -> None:
        """Write its configuration, which may have been removed."""
        self._sockets.ensure()
        self._file.write_text(json.dumps({"version": 1, "sidecar": self._settings}))

    def _start(self) -> None:
        command = [sys.executable, "-m", "idlestate.sidecar", str(self._file)]
        clock = SystemClock()
        ends_s = clock.monotonic_s() + _START_S
        while True:
            with self._log.open("ab") as log, self._lock:
                if self._stopping.is_set():
                    return
                self._write_file()
                begin = log.tell()
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    [*command, "--while-input-is-open"],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=(self._sockets.lock,),  # it survives a driver that is killed
                )
            try:
                if self._answers() or self._stopping.is_set():
                    return
            except BaseException:  # Ctrl-C
                self._end()
                raise
            code = self._process.poll()
            self._end()
            text = self._log.read_bytes()[begin:].decode(errors="replace").strip()
            # The sidecar of a driver that has just died uses the folder for another moment; and
            # this one may be killed or stopped during its start.
            may_start = code is not None and (code == IN_USE or code <= 0)
            if not may_start or clock.monotonic_s() > ends_s:
                raise kind_of(code)(
                    f"the sidecar in {self._log.parent} does not start: {text or _ended(code)}"
                )
            self._stopping.wait(_FIRST_PAUSE_S)

    def _answers(self) -> bool:
        """Wait until it answers (True), or has ended or took too long (False)."""
        clock = SystemClock()
        ends_s = clock.monotonic_s() + _START_S
        with closing(Connection(self.address, patience_s=0, timeout_s=_START_S)) as connection:
            while self._process.poll() is None and clock.monotonic_s() < ends_s:
                try:
                    connection.call("hello")
                except SidecarError:  # not yet, or it was stopped in the meantime
                    self._stopping.wait(_POLL_S)
                else:
                    return True
        return False


def _ended(code: int | None) -> str:
    """How a process without a message ended."""
    if code is None:
        return f"it did not answer for {_START_S:g} s"
    return f"signal {-code} ended it" if code < 0 else f"it ended with {code}"


_running: dict[Path, PrivateSidecar] = {}
_lock = threading.Lock()


def private_sidecar(checkpoint: Path, backend: str) -> PrivateSidecar:
    """The driver's sidecar for a checkpoint; started if it is not running."""
    folder = checkpoint.resolve() / FOLDER
    with _lock:
        found = _running.get(folder)
        if found is not None and found.is_running and found.backend == backend:
            return found
        if found is not None:
            found.stop()
        _running[folder] = PrivateSidecar(folder, backend)
        return _running[folder]


def sidecar_to_ask(checkpoint: Path, backend: str) -> Address:
    """Where to ask for the state of a checkpoint: the sidecar of the driver that runs its query,
    which may be another process, else one of this process.
    """
    folder = checkpoint.resolve() / FOLDER
    with _lock:
        ours = _running.get(folder)
    if ours is None and (folder / _ADDRESS).exists():
        theirs = Address((folder / _ADDRESS).read_text())
        with closing(Connection(theirs, patience_s=0, timeout_s=_HELLO_S)) as connection:
            try:
                connection.call("hello")
            except SidecarError:
                pass  # its driver was killed
            else:
                return theirs
    return private_sidecar(checkpoint, backend).address


def running_sidecars() -> list[Address]:
    """The addresses of the running sidecars that this driver has started."""
    return [each.address for each in list(_running.values()) if each.is_running]


def stop_private_sidecar(checkpoint: Path) -> None:
    """Stop the driver's sidecar for a checkpoint, if it runs."""
    with _lock:
        found = _running.pop(checkpoint.resolve() / FOLDER, None)
    if found is not None:
        found.stop()


def stop_private_sidecars() -> None:
    """Stop every sidecar that this driver has started."""
    with _lock:
        for each in _running.values():
            each.stop()
        _running.clear()


atexit.register(stop_private_sidecars)

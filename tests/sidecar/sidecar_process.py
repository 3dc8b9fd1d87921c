"""A sidecar as a process of its own, for tests: start, ask, kill."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
from click.testing import CliRunner, Result

from idlestate.service.cli import main
from idlestate.sidecar.client.client import SidecarClient
from idlestate.sidecar.protocol.connection import Address
from idlestate.sidecar.protocol.errors import DiskFullError
from tests.crash.processes import processes
from tests.patience import PATIENCE_S
from tests.sidecar.forked_process import ForkedProcess

COMMAND = [sys.executable, "-m", "idlestate.service.cli"]
RESTARTS_S = 120
"""How long a client waits for a sidecar that is killed and started again several times."""
MOST_WRITES = 10_000
UID = "carts"
POLICIES: dict[str, Any] = {
    "carts": {"time": "processing", "idle": {"min": "30m", "max": "45m"}},
    "short": {
        "time": "processing",
        "idle": {"min": "50ms", "max": "80ms"},
        "min_gap": "10ms",
        "max_shrink": "100%",
    },
}
OPERATOR: dict[str, Any] = {
    "columns": {"user": "string", "amount": "bigint"},
    "key": ["user"],
    "aggregates": {"n": "count", "total": "sum(amount)"},
    "policy": "carts",
}


def said(*words: object) -> Result:
    """What a command says, called in this process."""
    return CliRunner().invoke(main, [str(each) for each in words])


def wait_for(what: Callable[[], Any]) -> Any:
    """What a call says once it says something."""
    ends_s = monotonic() + PATIENCE_S
    while not (found := what()):
        assert monotonic() < ends_s
        threading.Event().wait(0.02)
    return found


def users(table: pa.Table) -> dict[str, tuple[int, int]]:
    """Counts and totals by user; none of users without an open life."""
    rows = [row for row in table.to_pylist() if row["n"] is not None]
    return {row["user"]: (row["n"], row["total"]) for row in rows}


def add(client: Any, number: int) -> None:
    """A write of 200 keys of its own and one that all writes share."""
    users = [f"{number}-{at}" for at in range(200)]
    client.add_many({"user": [*users, "same"], "amount": [1] * 201})


def fill(client: Any, error: type[Exception] = DiskFullError) -> int:
    """Write until that is refused plainly; how many writes were acknowledged."""
    for number in range(MOST_WRITES):
        try:
            add(client, number)
        except error:
            return number
    raise AssertionError("nothing went wrong")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(str(self._path))


class Sidecar:
    """A sidecar on a folder. Its sockets stand beside the folder, where paths are short."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.file = folder / "sidecar.json"
        self.settings = {
            "directory": str(folder / "state"),
            "operators": {UID: OPERATOR},
            **settings,
        }
        self.process: subprocess.Popen[str] | ForkedProcess | None = None
        self.data_place = self.control_url = ""

    @property
    def data_socket(self) -> Path:
        return self.folder / "state" / "data.sock"

    @property
    def control_socket(self) -> Path:
        return self.folder / "state" / "control.sock"

    def write_file(self, **changes: Any) -> None:
        self.settings |= changes
        document = {"version": 1, "policies": POLICIES, "sidecar": self.settings}
        self.file.write_text(json.dumps(document))

    def start(self, before: Sequence[str] = ()) -> "Sidecar":
        """Start it, behind these words of a command line, and wait until it listens."""
        self.start_told(before)
        return self

    def start_told(self, before: Sequence[str] = ()) -> str:
        """Start it; the line in which it says where it listens."""
        self.write_file()
        command, environment = ["serve", str(self.file)], os.environ | {"PYTHONUNBUFFERED": "1"}
        if before:
            self.process = subprocess.Popen(
                [*before, *COMMAND, *command], stderr=subprocess.PIPE, text=True, env=environment
            )
        else:
            self.process = ForkedProcess(command, environment)
        line = self.next_line()
        while line.startswith(("WARNING", "the tables were moved")):
            line = self.next_line()
        assert line.startswith("data at "), line
        return line

    @property
    def pid(self) -> int:
        """Of the newest process."""
        assert self.process is not None
        return self.process.pid

    def workers(self) -> list[int]:
        """The pids of its workers, which lead groups of their own."""
        every = processes().values()
        return sorted(one.pid for one in every if one.parent == self.pid and one.group == one.pid)

    def next_line(self) -> str:
        assert self.process is not None
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end."""
        assert self.process is not None
        assert self.process.stderr is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        self.process.stderr.close()
        return code

    def client(
        self, writer: str | None = None, place: str | Address | None = None, uid: str = UID
    ) -> Any:
        place = place or f"unix:{self.data_socket}"
        patience = timedelta(seconds=RESTARTS_S)
        return SidecarClient(place, uid, writer=writer, patience=patience, connect_timeout=patience)

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[int, Any]:
        """One request to the control plane: status, and JSON or text."""
        connection = UnixConnection(self.control_socket)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        is_json = response.headers["Content-Type"] == "application/json"
        return response.status, json.loads(body) if is_json else body.decode()

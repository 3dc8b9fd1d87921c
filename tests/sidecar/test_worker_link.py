"""The way to a worker: what is to be removed goes with the next write, and is not forgotten."""

from typing import Any

import pytest

from idlestate.sidecar.protocol.errors import (
    AwayError,
    BusyError,
    DamagedDirectoryError,
    DoesNotFitError,
)
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.workers.worker_settings import WorkerSettings
from idlestate.sidecar.workers.worker_supervisor import Worker

SETTINGS = WorkerSettings("folder", "heap", False, 1, "inner", "unix:outer", None, None)


class Process:
    killed = 0

    def kill(self) -> None:
        self.killed += 1


class Connection:
    """Notes calls, and answers or raises what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str] | None]] = []
        self.error: Exception | None = None

    def call(self, name: str, header: Any, *_parts: bytes) -> Message:
        self.calls.append((name, header.get("gone", header.get("keys"))))
        if self.error:
            raise self.error
        return Message({"bytes": 0, "is_broken": False, "properties": {}})


@pytest.fixture
def worker() -> Any:
    found: Any = Worker(0, SETTINGS, print)
    found._link = (Process(), Connection())
    return found


def test_keys_go_once_with_a_call_that_writes(worker: Any) -> None:
    _, connection = worker._link
    worker.remove(["s/a"])
    worker.remove(["s/b"])
    worker.call("look_up", {})
    worker.call("edit", {})
    worker.call("edit", {})
    assert connection.calls == [("look_up", None), ("edit", ["s/a", "s/b"]), ("edit", None)]


@pytest.mark.parametrize(
    ("error", "raised", "kills"),
    [(AwayError("gone"), BusyError, 1), (DoesNotFitError("no"), DoesNotFitError, 0)],
)
def test_a_call_that_fails_puts_them_off_again(
    worker: Any, error: Exception, raised: type[Exception], kills: int
) -> None:
    process, connection = worker._link
    worker.remove(["s/a"])
    connection.error = error
    with pytest.raises(raised):
        worker.call("edit", {})
    connection.error = None
    worker.tidy()
    assert connection.calls == [("edit", ["s/a"]), ("remove", ["s/a"]), ("size", None)]
    assert process.killed == kills


def test_what_keeps_it_from_giving_room_back_is_logged_once_while_it_is_the_same(
    worker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    _, connection = worker._link
    worker.remove(["s/a"])
    for error in (*["disk full"] * 3, "disk gone", None, "disk full"):
        connection.error = DamagedDirectoryError(error) if error else None
        worker.tidy()
        worker.remove(["s/a"])
    told = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert told == ["disk full", "disk gone", "disk full"]

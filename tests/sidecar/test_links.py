"""The link to a worker, without a process behind it."""

from collections.abc import Mapping
from typing import Any

import pytest

from idlestate.sidecar.protocol.errors import BusyError, DamagedDirectoryError, SidecarError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.workers.worker_settings import WorkerSettings
from idlestate.sidecar.workers.worker_supervisor import Worker

SETTINGS = WorkerSettings("folder", "heap", False, 1, "inner", "unix:outer", None, None)


@pytest.mark.parametrize("trouble", [BusyError("away"), DamagedDirectoryError("no room")])
def test_what_cannot_be_removed_now_is_removed_later(
    monkeypatch: pytest.MonkeyPatch, trouble: SidecarError
) -> None:
    """A worker that cannot do it is no reason to give up watching it, or to forget the keys."""
    worker = Worker(0, SETTINGS, print)
    removed: list[str] = []
    troubles = [trouble]

    def call(name: str, header: Mapping[str, Any]) -> Message:
        if troubles:
            raise troubles.pop()
        removed.extend(header.get("keys", ()))
        return Message({"bytes": 7, "is_broken": False, "properties": {}})

    monkeypatch.setattr(worker, "call", call)
    worker.remove(["s/a/00000/x/000000"])
    worker.tidy()
    assert removed == []
    worker.tidy()
    assert removed == ["s/a/00000/x/000000"]
    assert worker.bytes_on_disk == 7

"""Ranges of shards over workers, with links that are played."""

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from idlestate.sidecar.protocol.errors import BusyError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.workers.worker_placement import WorkerPlacement


class Link:
    """A worker that is away at the first call."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []
        self._is_away = True

    def call(self, _name: str, _header: Mapping[str, Any], *parts: bytes) -> Message:
        if self._is_away:
            self._is_away = False
            raise BusyError("worker 0 is restarting; retry the call")
        self.kept += parts
        return Message({})

    def remove(self, _keys: Iterable[str]) -> None:
        """Nothing is put off here."""


def test_a_worker_that_dies_when_its_sidecar_has_just_started_is_waited_for() -> None:
    links = [Link(), Link()]
    with closing(WorkerPlacement(links, [".0", ".1"], lambda: None, lambda: 0)) as ranges:
        ranges.keep([("s/carts/00000/a/000000", 2), ("s/carts/00001/b/000000", 2)])
    assert [link.kept for link in links] == [
        [b"s/carts/00000/a/000000"],
        [b"s/carts/00001/b/000000"],
    ]

"""A task's exchange with a sidecar that is played, and that changes in the middle."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from idlestate.backends.sidecar.connection import Address, Connection
from idlestate.backends.sidecar.errors import AwayError
from idlestate.backends.sidecar.message import Message
from idlestate.pipeline import exchange
from idlestate.pipeline.sidecar_link import SidecarLink


@pytest.mark.parametrize(("now", "tries"), [([""], 2), ([".0", ".1", ".2"], 2), ([".0", ".1"], 1)])
def test_a_task_begins_anew_only_with_a_sidecar_that_came_back_with_other_ranges(
    monkeypatch: pytest.MonkeyPatch, now: list[str], tries: int
) -> None:
    tried: list[tuple[str, ...]] = []

    def run(played: Any) -> Iterator[str]:
        tried.append(played._routes.places)
        if len(tried) == 1:
            played._routes.take([".0", ".1"])
            raise AwayError("of .1 there is nothing any more")
        yield "rows"

    def ranges(_connection: Connection, name: str) -> Message:
        assert name == "ranges"
        return Message({"places": now})

    monkeypatch.setattr(exchange._Exchange, "run", run)
    monkeypatch.setattr(exchange, "open_task_batch", lambda _: None)
    link = SidecarLink(Address("unix:nowhere"), "clicks")
    monkeypatch.setattr(exchange, "_link", lambda _: link)
    monkeypatch.setattr(Connection, "call", ranges)
    spec: Any = SimpleNamespace(uid="clicks")
    if tries == 1:
        with pytest.raises(AwayError):
            list(exchange._exchange(spec, []))
    else:
        rows: list[Any] = list(exchange._exchange(spec, []))
        assert rows == ["rows"]
        assert tried[1] == tuple(now)
    assert len(tried) == tries

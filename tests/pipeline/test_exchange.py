"""A task's exchange with a sidecar that is played, and that changes in the middle."""

from collections.abc import Iterator
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_statistics import ShardStatistics
from idlestate.pipeline import sidecar_exchange as exchange
from idlestate.pipeline.sidecar_link import SidecarLink
from idlestate.retention.policy import Policy
from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.errors import AwayError, GoneError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.protocol.transfers import Stage
from idlestate.timers.clock import FakeClock

SPEC: Any = SimpleNamespace(uid="clicks", table=SimpleNamespace(classes={}, has_own_step=False))


def play(monkeypatch: pytest.MonkeyPatch, run: Any, call: Any) -> None:
    """Let tries and calls be these."""
    link = SidecarLink(Address("unix:nowhere"), "clicks")
    monkeypatch.setattr(exchange._Exchange, "run", run)
    monkeypatch.setattr(exchange, "open_task_batch", lambda *_: None)
    monkeypatch.setattr(exchange, "link_of_task", lambda _: link)
    monkeypatch.setattr(Connection, "call", call)


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

    play(monkeypatch, run, ranges)
    if tries == 1:
        with pytest.raises(AwayError):
            list(exchange._exchange(SPEC, []))
    else:
        rows: list[Any] = list(exchange._exchange(SPEC, []))
        assert rows == ["rows"]
        assert tried[1] == tuple(now)
    assert len(tried) == tries


def test_a_sidecar_that_loses_an_exchange_again_and_again_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one whose memory a batch exceeds, whenever it is started again."""
    handles: list[str] = []

    def call(_connection: Connection, _name: str, header: Any, *_parts: bytes) -> Message:
        handles.append(header["handle"])
        Stage(FakeClock()).packets(header["handle"])
        raise AssertionError("no new process knows a handle")

    def run(played: Any) -> Iterator[str]:
        played._routes.main.call("finish", {"handle": f"handle-{len(handles)}"})
        yield "rows"

    play(monkeypatch, run, call)
    with pytest.raises(GoneError, match="its log has the cause"):
        list(exchange._exchange(SPEC, []))
    assert len(set(handles)) == len(handles) > 1


def test_change_rows_go_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a large batch in one array of Arrow's would be more than 2 GB."""
    parts = [b"one", b"two", b"three"]
    figures = asdict(ShardStatistics.of(ShardRecord(), Policy()))

    def call(name: str, header: Any, *_parts: bytes) -> Message:
        answers: dict[str, Any] = {
            "open": {"handle": "h", "places": [""]},
            "finish": {"chunks": [3], "figures": {0: figures}},
        }
        found = (parts[header["at"]],) if name == "fetch" else ()
        return Message(answers.get(name, {}), found)

    sidecar = SimpleNamespace(call=call)
    routes: Any = SimpleNamespace(main=sidecar, take=lambda _: None, to_range=lambda _: sidecar)
    times = SimpleNamespace(batch_id=7, time_ms=0)
    batch: Any = SimpleNamespace(times=times, in_force=SimpleNamespace(version=1), shards=[])
    monkeypatch.setattr(exchange._Exchange, "_opening", lambda _: {})
    rows = list(exchange._Exchange(SPEC, batch, routes, []).run())
    assert [each.column("cell").to_pylist() for each in rows] == [
        [None],
        *([each] for each in parts),
    ]

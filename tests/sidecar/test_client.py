"""A client's large writes, with a sidecar that is played."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.client.client import SidecarClient
from idlestate.sidecar.protocol.connection import Connection
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import AwayError, DoesNotFitError, SidecarError
from idlestate.sidecar.protocol.message import Message
from tests.sidecar.sidecar_world import SPEC, UID

ROWS = {"k": [f"key-{number}" for number in range(20_000)], "v": [1] * 20_000}


class Played:
    """A sidecar of two ranges that notes its calls, and fails where it is told to."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.places = [".0", ".1"]
        self.fail: Callable[[str], SidecarError | None] = lambda _: None

    def call(
        self, _connection: Connection, name: str, _header: Mapping[str, Any], *_parts: bytes
    ) -> Message:
        self.calls[name] += 1
        error = self.fail(name)
        if error is not None:
            raise error
        declaration = Declaration.of(UID, SPEC, TimeDomain.PROCESSING, 4).to_json()
        places = list(self.places)
        facts = {"seq": -1, "session": "1.a", "is_applied": True}
        return Message({"places": places, "declaration": declaration, **facts})


@pytest.fixture
def sidecar(monkeypatch: pytest.MonkeyPatch) -> Played:
    played = Played()

    def call(connection: Connection, name: str, header: Any = None, *parts: bytes) -> Message:
        return played.call(connection, name, header or {}, *parts)

    monkeypatch.setattr(Connection, "call", call)
    return played


def test_a_range_that_stays_away_is_waited_for_once(sidecar: Played) -> None:
    sidecar.fail = lambda name: AwayError("away") if name == "chunk" else None
    with SidecarClient("unix:nowhere", UID) as client:
        with pytest.raises(AwayError):
            client.add_many(ROWS)
        assert sidecar.calls["chunk"] == 1
        sidecar.fail = lambda _: None
        client.retry()
    assert sidecar.calls["write"] == 1


def test_a_sidecar_that_came_back_with_other_ranges_gets_the_write(sidecar: Played) -> None:
    def moved(name: str) -> SidecarError | None:
        if name != "chunk" or sidecar.calls["chunk"] > 1:
            return None
        sidecar.places = [".0", ".1", ".2"]
        return AwayError("away")

    sidecar.fail = moved
    with SidecarClient("unix:nowhere", UID) as client:
        client.add_many(ROWS)
    assert sidecar.calls["chunk"] == 1 + 3
    assert sidecar.calls["write"] == 1


def test_a_write_that_counts_is_not_told_as_failed(sidecar: Played) -> None:
    sidecar.fail = lambda name: AwayError("away") if name == "close" else None
    with SidecarClient("unix:nowhere", UID) as client:
        client.add_many(ROWS)
        client.retry()
    assert sidecar.calls["write"] == 1


def test_rows_that_cannot_be_told_apart_are_refused_and_hold_up_no_others(
    sidecar: Played,
) -> None:
    rows = pa.table(ROWS)
    with SidecarClient("unix:nowhere", UID) as client:
        with pytest.raises(DoesNotFitError, match="2 times"):
            client.add_many(rows.append_column("v", rows.column("v")))
        client.add_many(rows)
    assert sidecar.calls["write"] == 1

"""The listener of a session, which every operator registers with."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from types import SimpleNamespace
from typing import Any

import pytest

from idlestate.pipeline import query_start_listener

THREADS = 4


class Session:
    """One whose listeners take a while to add, as in Spark."""

    def __init__(self) -> None:
        self.streams = self
        self.listeners: list[Any] = []
        self._all_add = Barrier(THREADS, timeout=0.2)

    def addListener(self, listener: Any) -> None:  # noqa: N802 - Spark's name
        with suppress(BrokenBarrierError):
            self._all_add.wait()
        self.listeners.append(listener)


def test_operators_that_threads_declare_at_once_are_all_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a query would start without its checkpoint being prepared, and never be accepted."""
    monkeypatch.setattr(query_start_listener, "session_id", lambda _: "session")
    monkeypatch.setattr(query_start_listener, "check_starts", lambda _: None)
    monkeypatch.setattr(query_start_listener, "_listeners", {})
    session: Any = Session()
    specs: list[Any] = [SimpleNamespace(token=f"t{number}") for number in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda spec: query_start_listener.register(session, spec), specs))
    assert len(session.listeners) == 1
    plan = " ".join(f"{query_start_listener.PACKER_NAME}{spec.token}(" for spec in specs)
    assert query_start_listener.operators_in(session, plan) == specs

"""The listener of a session, which every operator registers with."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from idlestate.errors import (
    DamagedStateError,
    FencedError,
    IdlestateError,
    RefusedError,
    StoreError,
    UnavailableError,
)
from idlestate.pipeline import query_start_listener
from idlestate.pipeline.query_start_listener import _check_started, _StartListener
from idlestate.pipeline.spark import spark_query

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


@pytest.mark.parametrize(
    ("raised", "kind", "told"),
    [
        *((kind("why"), kind, "^why$") for kind in (DamagedStateError, FencedError, StoreError)),
        *((kind("why"), kind, "^why$") for kind in (RefusedError, UnavailableError)),
        (OSError(28, "No space left on device"), StoreError, "cannot be prepared: .*No space"),
        (KeyError("x"), RefusedError, "cannot be prepared: 'x'"),
    ],
    ids=repr,
)
def test_a_query_that_is_not_started_raises_the_kind_of_error_that_stopped_it(
    raised: Exception, kind: type[IdlestateError], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise raised

    ended: list[str] = []
    for name, played in {
        "execution_of": lambda *_: None,
        "plan_of": lambda _: "",
        "operators_in": lambda *_: [SimpleNamespace(uid="counts")],
        "checkpoint_of": lambda _: "checkpoint",
        "hold": fail,
        "end_query": lambda *given: ended.append(given[-1]),
    }.items():
        monkeypatch.setattr(query_start_listener, name, played)
    session: Any = SimpleNamespace()
    listener = _StartListener(session)
    monkeypatch.setattr(query_start_listener, "_listeners", {"session": listener})
    listener.onQueryStarted(SimpleNamespace(id="query", runId="run"))
    query: Any = SimpleNamespace(runId="run", awaitTermination=lambda: None)
    with pytest.raises(kind, match=told) as found:
        _check_started(query)
    assert ended == [str(found.value)]
    _check_started(query)  # once


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("No space left on device", StoreError), ("Mkdirs failed to create x", RefusedError)],
)
def test_a_checkpoint_that_spark_cannot_create_is_told_by_kind(
    reason: str, kind: type[IdlestateError]
) -> None:
    java = SimpleNamespace(getName=lambda: "java.io.IOException")
    error = Py4JJavaError.__new__(Py4JJavaError)
    error.java_exception = SimpleNamespace(getClass=lambda: java, getMessage=lambda: reason)

    def start(_: Any) -> Any:
        raise error

    writer: Any = None
    with pytest.raises(kind, match=f"cannot be created: {reason}; set"):
        spark_query._checked(start, lambda _: None)(writer)

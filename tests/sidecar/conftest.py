"""Sidecars as processes, and operators in this process."""

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.sidecar.kinds_of_worlds import SHORT_AND_LONG_KINDS, leave_one
from tests.sidecar.sidecar_process import Sidecar
from tests.sidecar.sidecar_world import World

LIMIT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_one(items)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One whose path is short enough for sockets."""
    return tmp_path_factory.mktemp("f")


@pytest.fixture
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Sidecar]]:
    """Makes sidecars, and ends those that a test leaves running."""
    sidecars: list[Sidecar] = []

    def make(**settings: Any) -> Sidecar:
        sidecars.append(Sidecar(tmp_path_factory.mktemp("s"), **settings))
        return sidecars[-1]

    yield make
    for each in sidecars:
        if each.process is not None and each.process.poll() is None:
            each.stop(signal.SIGKILL)


@pytest.fixture
def no_hang() -> Iterator[None]:
    """Fail where a test would wait for ever."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"still at it after {LIMIT_S} s")

    assert threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=SHORT_AND_LONG_KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(request.param, tmp_path / "state")
    yield made
    made.close()

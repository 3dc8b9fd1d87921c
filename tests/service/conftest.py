"""Runs of the command line: in this process over one shared session, or in a process of its own."""

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.pipeline.conftest import spark  # noqa: F401 - the session of the tests through Spark
from tests.service.command_line import CommandLine
from tests.sidecar.sidecar_process import Sidecar

LIMIT_S = 600


@pytest.fixture
def line(tmp_path: Path) -> CommandLine:
    """The command line with a folder of its own; a configuration is written with `line.write`."""
    return CommandLine(tmp_path)


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


@pytest.fixture
def here(
    line: CommandLine,
    spark: Any,  # noqa: F811 - the fixture, not the import
    no_hang: None,
    monkeypatch: pytest.MonkeyPatch,
) -> CommandLine:
    """The command line in this process: runs take the shared session and leave it running."""
    from pyspark.sql import SparkSession

    def given(partitions: int | None, log: Path) -> Any:
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions or 2))
        return spark

    monkeypatch.setattr("idlestate.service.job.start_spark", given)
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    return line

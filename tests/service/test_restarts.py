"""Python workers of Spark that do not start in time, as on a machine that is overloaded."""

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import StreamingQueryException

from idlestate.backends.files.folder import Folder
from idlestate.pipeline import run_to_end as run_to_end_module
from idlestate.pipeline.query_start_listener import _StartListener
from idlestate.pipeline.run_to_end import run_to_end
from idlestate.pipeline.spark.worker_restarts import MOST_RESTARTS, Restarts
from idlestate.service.spark_errors import plain_error
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from tests.service.command_line import CommandLine, assert_good, assert_refused, event
from tests.service.rows import last_counts

LATE = "[STREAM_FAILED] Terminated: Python worker failed to connect back. SQLSTATE: X"
CRASHED = "SparkException: Python worker exited unexpectedly (crashed): java.io.EOFException"
SILENT = "Python worker process terminated due to idle timeout (timeout: 8 seconds)"
OF_DAEMON = "Timed out while waiting for the Python worker to connect back after 60000 ms"
BROKEN = """#!/bin/sh
case "$*" in *{module}*)
  left=$(cat {left}); if [ "$left" -gt 0 ]; then
    echo $((left - 1)) > {left}
    exec {python} -c 'import os, socket
path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
if path:
    socket.socket(socket.AF_UNIX).connect(path)
else:
    port = int(os.environ["PYTHON_WORKER_FACTORY_PORT"])
    socket.create_connection(("127.0.0.1", port))'
  fi;; esac
exec {python} "$@"
"""
"""A Python whose workers for sources hang up so many times. Spark then says what it says of one
that is late, without the 10 s."""


@pytest.fixture
def late_workers(
    here: CommandLine, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], Path]]:
    """Lets so many workers fail; how many are left stands in the file."""
    left, python = tmp_path / "left", tmp_path / "python"
    module = "python_streaming_source_runner"
    python.write_text(BROKEN.format(module=module, left=left, python=sys.executable))
    python.chmod(0o700)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))

    def set_left(count: int) -> Path:
        left.write_text(str(count))
        return left

    here.add("0.json", [event("2025-03-03T10:00:00Z", user) for user in ("ada", "bob", "ada")])
    here.write(backend="heap")
    yield set_left
    stop_private_sidecars()


@pytest.mark.spark
def test_the_query_is_started_again_and_nothing_is_counted_twice(
    here: CommandLine, late_workers: Callable[[int], Path], caplog: pytest.LogCaptureFixture
) -> None:
    left = late_workers(2)
    with caplog.at_level(logging.INFO, "idlestate"):
        said = here.run()
    assert_good(said)
    assert left.read_text().strip() == "0"
    for number in (1, 2):
        words = f"restarting the query from its checkpoint ({number} of {MOST_RESTARTS})"
        assert words in said.text + caplog.text
    assert last_counts(here.out / "results") == {"ada": 2, "bob": 1}


@pytest.mark.long
@pytest.mark.spark
def test_after_a_few_restarts_it_says_that_running_again_continues(
    here: CommandLine, late_workers: Callable[[int], Path]
) -> None:
    left = late_workers(100)
    said = here.run()
    assert_refused(said, "a Python worker of Spark did not start in time", "it continues from")
    assert left.read_text().strip() == str(100 - 1 - MOST_RESTARTS)
    late_workers(0)
    assert_good(here.run())
    assert last_counts(here.out / "results") == {"ada": 2, "bob": 1}


def test_restarts_are_counted_between_finished_batches() -> None:
    told: list[str] = []
    restarts = Restarts(told.append)
    for text in (LATE, OF_DAEMON, LATE):
        assert restarts.allows(RuntimeError(text))
    assert not restarts.allows(RuntimeError(LATE))
    restarts.note_batch()
    assert restarts.allows(RuntimeError(LATE))
    assert not restarts.allows(RuntimeError("Job aborted due to stage failure"))
    assert len(told) == 1 + MOST_RESTARTS


class Query:
    """One that ends with an error, or well."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def exception(self) -> Exception | None:
        return self._error

    def awaitTermination(self) -> None:  # noqa: N802 - Spark's name
        if self._error:
            raise self._error


def test_a_query_on_bounded_input_is_started_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Any] = []

    def operators_of(query: Any) -> tuple[None, list[Any]]:
        ended.append(query)
        return None, []

    monkeypatch.setattr(run_to_end_module, "operators_of", operators_of)
    queries: list[Any] = [Query(StreamingQueryException(LATE)) for _ in range(MOST_RESTARTS)]
    queries.append(Query(None))
    starts = iter(queries)
    assert run_to_end(lambda: next(starts)) is queries[-1]
    assert ended == [queries[-1]]
    for text in (LATE, "Job aborted"):
        with pytest.raises(StreamingQueryException):
            run_to_end(lambda text=text: Query(StreamingQueryException(text)))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LATE, "did not start in time"),
        (OF_DAEMON, "did not start in time"),
        (CRASHED, "code in it crashed or called os._exit"),
        (SILENT, "its code hangs"),
    ],
)
def test_the_error_says_that_nothing_is_lost(text: str, problem: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    told = str(plain_error(RuntimeError(text), log))
    assert problem in told
    assert "nothing is lost: run the same command again, it continues" in told
    assert text in log.read_text()


@pytest.mark.parametrize("error", [Py4JNetworkError(), ConnectionResetError(), Py4JError()])
def test_a_jvm_that_was_killed_is_told_with_the_way_on(error: Exception, tmp_path: Path) -> None:
    told = str(plain_error(error, tmp_path / "log"))
    assert "Spark's JVM exited: it was killed or ran out of memory" in told
    assert "run the same command again, it continues from the last committed batch" in told


@pytest.mark.parametrize(
    ("text", "problem"), [(LATE, "did not start"), (CRASHED, "os._exit"), (SILENT, "hangs")]
)
def test_a_query_of_ones_own_is_told_so_too(
    text: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    session: Any = SimpleNamespace()
    listener: Any = _StartListener(session)
    specs = [SimpleNamespace(uid="visits")]
    listener.started |= {run: (Folder("checkpoint"), specs) for run in ("run-1", "run-2")}
    for run, exception in (("run-1", None), ("run-2", text), ("run-3", text)):
        listener.onQueryTerminated(SimpleNamespace(id="query", runId=run, exception=exception))
    (record,) = caplog.records
    assert "query query (operator 'visits') stopped" in record.getMessage()
    assert problem in record.getMessage()
    assert "restarted, it continues from its last committed batch" in record.getMessage()

"""Tasks that run again after a policy changed, on executors that cannot see the configuration."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.files.folder import Folder
from idlestate.timers.clock import SystemClock
from tests.crash.checkpoint_view import CheckpointView
from tests.crash.processes import Run, wait_until
from tests.service.command_line import CommandLine, event
from tests.service.rows import rows
from tests.stopped_process import stop

pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc"),
]


@pytest.fixture
def line(tmp_path: Path) -> CommandLine:
    line = CommandLine(tmp_path)
    line.add("0.json", [event("2025-03-03T10:00:00Z", "ann"), event("2025-03-03T10:20:00Z", "bob")])
    line.write(trigger="200ms")
    return line


@pytest.fixture
def running(line: CommandLine) -> Iterator[Run]:
    run = Run(line.config, line.folder / "run.log", submit=["--master", "local-cluster[2,1,1024]"])
    yield run
    run.end()


def test_a_task_that_is_retried_after_a_reload_decides_as_its_batch_was_planned(
    running: Run, line: CommandLine
) -> None:
    """The workers stand still from before the batch until the new policy holds, and are killed."""
    view = CheckpointView(line.checkpoint)

    def until(what: str, happened: object) -> None:
        def seen() -> bool:
            assert running.code is None, running.said()
            return bool(happened())  # type: ignore[operator]

        wait_until(what, seen)

    def files_taken() -> int:
        return max((planned.last_file for planned in view.plans().values()), default=-1)

    until("the first batch", lambda: view.has_committed(0))
    text = line.config.read_text()
    # Under this one ann's end is due at once.
    line.config.write_text(text.replace("30m", "2m").replace("45m", "10m"))
    until("the new policy", lambda: "uses idle 2m to 10m (version 2)" in running.said())
    line.config.unlink()
    effective_ms = PolicyJournal(Folder(str(line.checkpoint)), "clicks").versions[-1].effective_ms

    until("rest", lambda: not view.in_flight)
    still = running.workers()
    for worker in still:
        stop(worker.pid)
    line.add("1.json", [event("2025-03-03T10:20:00Z", "bob")])
    until("the batch", lambda: files_taken() == 1)
    batch_id, planned = view.planned, view.plans()[view.planned]
    assert planned.time_ms < effective_ms
    until("the new policy's time", lambda: SystemClock().now_ms() > effective_ms)
    assert view.in_flight
    for worker in still:
        os.kill(worker.pid, signal.SIGKILL)
    until("the batch's end", lambda: view.has_committed(batch_id))
    assert "Lost task" in running.said()
    assert not rows(line.out / "expired")

    line.add("2.json", [event("2025-03-03T10:20:00Z", "bob")])
    until("ann's end", lambda: rows(line.out / "expired"))
    (end,) = rows(line.out / "expired")
    assert end["user"] == "ann"
    assert end["batch_id"] > batch_id
